;;; duet-rpc.el --- Call JSON-RPC servers and the duet-rpc daemon  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1") (jsonrpc "1.0.14"))
;; Keywords: comm, processes, tools
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Starts `duet-rpc rpc', or any other JSON-RPC server that frames its
;; messages with Content-Length, and calls it through Emacs's built-in
;; jsonrpc.el.
;;
;;   (duet-rpc-call "version")             ; wait for the answer
;;   (duet-rpc-call-async "version" nil    ; return immediately
;;                        :on-success #'print)
;;
;; The first call starts a shared daemon.  If it dies, the next call starts
;; it again.  `duet-rpc-open' starts your own server.
;;
;; This package adds to jsonrpc.el:
;; - A call that is cancelled, times out or is quit with C-g is also
;;   cancelled in the daemon.
;; - Handlers and callbacks run outside of the process filter, in the order
;;   of arrival, so they may make calls and may fail.
;; - Standard error goes to a log of bounded size.
;; - All buffers and processes of a dead daemon are removed, except its log.

;;; Code:

(require 'cl-lib)
(require 'jsonrpc)
(require 'duet-rpc-server)

;;; Options

(defcustom duet-rpc-program "duet-rpc"
  "The daemon: the name of a program in variable `exec-path', or a file."
  :group 'duet-rpc
  :type 'string)

(defcustom duet-rpc-arguments '("rpc")
  "Arguments of the shared daemon, besides its log level."
  :group 'duet-rpc
  :type '(repeat string))

(defcustom duet-rpc-log-level 'info
  "Log level of the shared daemon at its start.
The command `duet-rpc-set-log-level' also changes a running daemon."
  :group 'duet-rpc
  :type '(choice (const debug) (const info) (const warn) (const error)))

(defcustom duet-rpc-timeout 30
  "Maximum time of a call in seconds, or nil for no limit."
  :group 'duet-rpc
  :type '(choice number (const :tag "No limit" nil)))

;;; Errors

(define-error 'duet-rpc-error "duet-rpc" 'jsonrpc-error)
(define-error 'duet-rpc-timeout "duet-rpc, timed out" 'duet-rpc-error)
(define-error 'duet-rpc-died "duet-rpc, no server" 'duet-rpc-error)

(defun duet-rpc-error-code (error)
  "Return the code of ERROR, as `condition-case' has caught it."
  (alist-get 'jsonrpc-error-code (cddr error)))

(defun duet-rpc-error-message (error)
  "Return the server's message in ERROR, as `condition-case' has caught it."
  (alist-get 'jsonrpc-error-message (cddr error)))

(defun duet-rpc-error-data (error)
  "Return the data of ERROR, as `condition-case' has caught it."
  (alist-get 'jsonrpc-error-data (cddr error)))

;;; Calls

(cl-defstruct (duet-rpc-request (:constructor duet-rpc--make-request) (:copier nil))
  "A call, for `duet-rpc-cancel'."
  connection method id
  ;; `waiting' for an answer, `answered' with its function still to be called,
  ;; or `over'.
  (state 'waiting))

(defvar duet-rpc--sending nil "The request that is being sent, or nil.")

(cl-defmethod jsonrpc-connection-send :before ((_connection duet-rpc-connection)
                                               &key id &allow-other-keys)
  "Remember ID as the id of the request being sent.
The function `jsonrpc-async-request' does not return it."
  ;; A filter may send other messages meanwhile.  They come later, and this
  ;; ignores them.
  (when (and duet-rpc--sending (not (duet-rpc-request-id duet-rpc--sending)))
    (setf (duet-rpc-request-id duet-rpc--sending) id)))

(defun duet-rpc--request (connection method params timeout finish)
  "Send METHOD with PARAMS to CONNECTION, and return the request.
FINISH is called once, from a filter or a timer, with the request, a symbol
and a value: `result' and the result, `error' and jsonrpc.el's plist of the
error, or `timeout' and nil after TIMEOUT seconds."
  (let* ((request (duet-rpc--make-request :connection connection :method method))
         (end (lambda (kind value)
                (when (eq (duet-rpc-request-state request) 'waiting)
                  (setf (duet-rpc-request-state request) 'answered)
                  (funcall finish request kind value))))
         (duet-rpc--sending request))
    (duet-rpc--send
     connection
     (lambda ()
       (duet-rpc--within
        timeout
        (lambda ()
          (jsonrpc-async-request
           connection (duet-rpc--symbol method) params :timeout timeout
           :success-fn (lambda (result) (funcall end 'result result))
           :error-fn (lambda (error) (funcall end 'error error))
           :timeout-fn (lambda ()
                         (when (eq (duet-rpc-request-state request) 'waiting)
                           (duet-rpc--tell-cancelled request))
                         (funcall end 'timeout nil))))
        ;; A server that did not read the request would not read a
        ;; cancellation either.
        (lambda () (funcall end 'timeout nil)))))
    request))

(defun duet-rpc--send (connection send)
  "Call SEND, which sends to CONNECTION.
Signal `duet-rpc-died' if the server of CONNECTION is dead."
  (condition-case error
      (funcall send)
    (error (if (duet-rpc-live-p connection)
               (signal (car error) (cdr error))
             (duet-rpc--signal-died connection)))))

(defun duet-rpc--symbol (method)
  "Return METHOD as a symbol, which all versions of jsonrpc.el accept."
  (if (stringp method) (intern method) method))

(defun duet-rpc--tell-cancelled (request)
  "Send a cancellation of REQUEST to its server."
  (ignore-errors
    (jsonrpc-notify (duet-rpc-request-connection request) '$/cancelRequest
                    (list :id (duet-rpc-request-id request)))))

(defun duet-rpc--signal (symbol message &optional code text data)
  "Signal SYMBOL with MESSAGE, and CODE, TEXT and DATA as jsonrpc.el does."
  (signal symbol (list message (cons 'jsonrpc-error-code code)
                       (cons 'jsonrpc-error-message text)
                       (cons 'jsonrpc-error-data data))))

(defun duet-rpc--signal-died (connection)
  "Signal that the server of CONNECTION has died."
  (duet-rpc--signal 'duet-rpc-died
                    (format "the server has ended with status %d, see buffer %s"
                            (process-exit-status (duet-rpc--server connection))
                            (duet-rpc-log-buffer-name connection))))

(defun duet-rpc--connection (connection)
  "Return CONNECTION if it is alive; if nil, the one to the shared daemon."
  (cond ((null connection) (duet-rpc-start))
        ((duet-rpc-live-p connection) connection)
        (t (duet-rpc--signal-died connection))))

;;;###autoload
(cl-defun duet-rpc-call (method &optional params &key connection
                                (timeout duet-rpc-timeout))
  "Call METHOD with PARAMS, wait for the answer and return its result.
METHOD is a string or a symbol.  PARAMS is a plist for an object, a vector for
an array, or nil for none.  Objects, arrays, null and false come back as
plists, vectors, nil and `:json-false'.

CONNECTION is a connection from `duet-rpc-open', or nil for the shared
daemon, which is started if necessary.

If the answer is an error, signal `duet-rpc-error': see `duet-rpc-error-code',
`duet-rpc-error-message' and `duet-rpc-error-data'.  After TIMEOUT seconds,
signal `duet-rpc-timeout'.  If the server dies, signal `duet-rpc-died'.  Any
other exit, such as \\[keyboard-quit], cancels the call."
  (duet-rpc--refuse-in-handler)
  (let* ((connection (duet-rpc--connection connection))
         (outcome nil)
         (request (duet-rpc--request connection method params timeout
                                     (lambda (_request &rest it) (setq outcome it)))))
    (unwind-protect
        (while (not outcome)
          ;; An answer ends this wait immediately; a timer or a death does not.
          (accept-process-output (duet-rpc--server connection) 0.05)
          ;; From Emacs 30 on, jsonrpc.el handles answers in a timer.
          (unless outcome (accept-process-output nil 0)))
      (duet-rpc-cancel request))
    (pcase outcome
      (`(result ,result) result)
      (`(timeout ,_)
       (duet-rpc--signal 'duet-rpc-timeout
                         (format "no answer to `%s' in %s seconds" method timeout)))
      (`(error ,error)
       (cl-destructuring-bind (&key code message data &allow-other-keys) error
         ;; This code means that the server has died.
         (when (and (eql code -1) (not (duet-rpc-live-p connection)))
           (duet-rpc--signal-died connection))
         (duet-rpc--signal 'duet-rpc-error (format "%s: %s (%s)" method message code)
                           code message data))))))

;;;###autoload
(cl-defun duet-rpc-call-async (method &optional params &key connection
                                      (timeout duet-rpc-timeout)
                                      on-success on-error on-timeout)
  "Call METHOD with PARAMS, and return the request without waiting.
METHOD, PARAMS, CONNECTION and TIMEOUT are as in `duet-rpc-call'.

Exactly one of three functions is called later: ON-SUCCESS with the result;
ON-ERROR with a plist of `:code', `:message' and `:data', where the code is
-1 if the server has died; ON-TIMEOUT without arguments.  Without ON-TIMEOUT,
a timeout is an error without a code.  Without ON-ERROR, errors go to the log
buffer.  After `duet-rpc-cancel', none of the functions is called."
  (let* ((connection (duet-rpc--connection connection))
         (on-error (or on-error
                       (lambda (error)
                         (duet-rpc--log connection
                                        (format "duet-rpc.el: call of %s: %S\n"
                                                method error)))))
         (on-timeout (or on-timeout
                         (lambda () (funcall on-error '(:message "Timed out"))))))
    (duet-rpc--request
     connection method params timeout
     (lambda (request kind value)
       (duet-rpc--later
        (lambda ()
          (when (eq (duet-rpc-request-state request) 'answered)
            (setf (duet-rpc-request-state request) 'over)
            (pcase kind
              ('result (funcall (or on-success #'ignore) value))
              ('error (funcall on-error value))
              ('timeout (funcall on-timeout))))))))))

(defun duet-rpc-cancel (request)
  "Cancel REQUEST, which `duet-rpc-call-async' has returned.
The server gets a cancellation, and none of the functions of the request is
called.  Return non-nil if the request had not ended yet."
  (let ((state (duet-rpc-request-state request)))
    (setf (duet-rpc-request-state request) 'over)
    (when (eq state 'waiting)
      (duet-rpc--tell-cancelled request))
    (not (eq state 'over))))

;;;###autoload
(cl-defun duet-rpc-notify (method &optional params &key connection)
  "Send the notification METHOD with PARAMS; there is no answer.
METHOD, PARAMS and CONNECTION are as in `duet-rpc-call'."
  (let ((connection (duet-rpc--connection connection)))
    (duet-rpc--send connection
                    (lambda ()
                      (jsonrpc-notify connection (duet-rpc--symbol method) params)))))

;;; The shared daemon

(defvar duet-rpc--shared nil "The connection to the shared daemon, or nil.")

;;;###autoload
(defun duet-rpc-start (&optional show)
  "Start the shared daemon if there is none, and return the connection to it.
Calls do that automatically.  If SHOW is non-nil, show a message."
  (interactive '(t))
  (unless (duet-rpc-live-p duet-rpc--shared)
    (setq duet-rpc--shared
          (duet-rpc-open duet-rpc-program
                         (append duet-rpc-arguments
                                 (list "--log-level" (symbol-name duet-rpc-log-level)))
                         :name "duet-rpc")))
  (when show
    (message "duet-rpc is process %d" (process-id (duet-rpc--server duet-rpc--shared))))
  duet-rpc--shared)

;;;###autoload
(defun duet-rpc-stop (&optional show)
  "Stop the shared daemon, and return its exit status, or nil if there is none.
`duet-rpc-close' describes the steps.  If SHOW is non-nil, show a message."
  (interactive '(t))
  (let ((status (and (duet-rpc-live-p duet-rpc--shared)
                     (duet-rpc-close duet-rpc--shared))))
    (setq duet-rpc--shared nil)
    (when show
      (if status
          (message "duet-rpc has ended with status %d" status)
        (message "duet-rpc was not running")))
    status))

;;;###autoload
(defun duet-rpc-restart (&optional show)
  "Stop the shared daemon, start it again, and return the connection to it.
If SHOW is non-nil, show a message."
  (interactive '(t))
  (duet-rpc-stop)
  (duet-rpc-start show))

;;;###autoload
(defun duet-rpc-show-version ()
  "Show the version of the shared daemon."
  (interactive)
  (message "duet-rpc %s" (plist-get (duet-rpc-call "version") :version)))

;;;###autoload
(defun duet-rpc-ping ()
  "Show how long the shared daemon takes to answer."
  (interactive)
  (duet-rpc-start)
  (let ((begun (current-time)))
    (duet-rpc-call "version")
    (message "duet-rpc has answered in %.1f ms"
             (* 1000 (float-time (time-since begun))))))

;;;###autoload
(defun duet-rpc-set-log-level (level)
  "Set the log level of the shared daemon to LEVEL, a symbol.
Also set `duet-rpc-log-level', for daemons that are started later."
  (interactive (list (intern (completing-read "Log level: "
                                              '("debug" "info" "warn" "error")
                                              nil t))))
  (duet-rpc-call "setLogLevel" (list :level (symbol-name level)))
  (setq duet-rpc-log-level level))

;;;###autoload
(defun duet-rpc-show-log ()
  "Show the log of the shared daemon."
  (interactive)
  (pop-to-buffer (or (get-buffer "*duet-rpc log*")
                     (user-error "There is no log: duet-rpc was not started, \
or `duet-rpc-log-size' is 0"))))

(provide 'duet-rpc)
;;; duet-rpc.el ends here
