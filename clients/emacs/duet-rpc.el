;;; duet-rpc.el --- Talk with the duet-rpc daemon  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1") (jsonrpc "1.0.14"))
;; Keywords: comm, processes, tools
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Starts `duet-rpc rpc', or any other JSON-RPC server that frames its
;; messages with Content-Length, and speaks with it through Emacs's own
;; jsonrpc.el.
;;
;;   (duet-rpc-call "version")             ; wait for the answer
;;   (duet-rpc-call-async "version" nil    ; or do not
;;                        :on-success #'print)
;;
;; There is one shared daemon, which starts with the first call and, should
;; it die, again with the next.  `duet-rpc-open' starts a server of your own.
;;
;; What this adds to jsonrpc.el: a cancelled call, one that timed out and one
;; that was left with C-g are cancelled in the daemon too; handlers and
;; callbacks run outside of the process filter, in the order of arrival, so
;; that they may make calls and may fail; standard error goes to a log of
;; bounded size; and nothing is left of a daemon that has ended.

;;; Code:

(require 'cl-lib)
(require 'jsonrpc)
(require 'duet-rpc-server)

;;; What can be set

(defcustom duet-rpc-program "duet-rpc"
  "The daemon: a name to look up in variable `exec-path', or a file."
  :group 'duet-rpc
  :type 'string)

(defcustom duet-rpc-arguments '("rpc")
  "What the shared daemon is started with, besides its log level."
  :group 'duet-rpc
  :type '(repeat string))

(defcustom duet-rpc-log-level 'info
  "How much the shared daemon writes to its log from its start on.
Use the command `duet-rpc-set-log-level' to change a running one too."
  :group 'duet-rpc
  :type '(choice (const debug) (const info) (const warn) (const error)))

(defcustom duet-rpc-timeout 30
  "How many seconds a call may take, or nil for as long as it likes."
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
  "Return the data that came with ERROR, as `condition-case' has caught it."
  (alist-get 'jsonrpc-error-data (cddr error)))

;;; Calls

(cl-defstruct (duet-rpc-request (:constructor duet-rpc--make-request) (:copier nil))
  "A call that was made: what `duet-rpc-cancel' takes."
  connection method id
  ;; `waiting' for an answer, `answered' with its function still to be called,
  ;; or `over'.
  (state 'waiting))

(defvar duet-rpc--sending nil "The request that is being sent, or nil.")

(cl-defmethod jsonrpc-connection-send :before ((_connection duet-rpc-connection)
                                               &key id &allow-other-keys)
  "Note ID as that of the request being sent: jsonrpc.el does not tell it."
  ;; What is sent meanwhile, by a filter that runs, comes later.
  (when (and duet-rpc--sending (not (duet-rpc-request-id duet-rpc--sending)))
    (setf (duet-rpc-request-id duet-rpc--sending) id)))

(defun duet-rpc--request (connection method params timeout finish)
  "Send METHOD with PARAMS to CONNECTION, and return the request.
FINISH is called once, from a filter or a timer, with the request, a symbol
and a value: `result' and it, `error' and jsonrpc.el's plist of it, or
`timeout' and nil, if TIMEOUT seconds are over."
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
        ;; Who does not read that would not read of its end either.
        (lambda () (funcall end 'timeout nil)))))
    request))

(defun duet-rpc--send (connection send)
  "Call SEND, which sends to CONNECTION; say it clearly if that is gone."
  (condition-case error
      (funcall send)
    (error (if (duet-rpc-live-p connection)
               (signal (car error) (cdr error))
             (duet-rpc--signal-died connection)))))

(defun duet-rpc--symbol (method)
  "Return METHOD as the only thing that all versions of jsonrpc.el take."
  (if (stringp method) (intern method) method))

(defun duet-rpc--tell-cancelled (request)
  "Tell the server of REQUEST that it need not answer."
  (ignore-errors
    (jsonrpc-notify (duet-rpc-request-connection request) '$/cancelRequest
                    (list :id (duet-rpc-request-id request)))))

(defun duet-rpc--signal (symbol message &optional code text data)
  "Signal SYMBOL with MESSAGE, and CODE, TEXT and DATA as jsonrpc.el does."
  (signal symbol (list message (cons 'jsonrpc-error-code code)
                       (cons 'jsonrpc-error-message text)
                       (cons 'jsonrpc-error-data data))))

(defun duet-rpc--signal-died (connection)
  "Signal that the server of CONNECTION is gone."
  (duet-rpc--signal 'duet-rpc-died
                    (format "the server has ended with status %d, see buffer %s"
                            (process-exit-status (duet-rpc--server connection))
                            (duet-rpc-log-buffer-name connection))))

(defun duet-rpc--connection (connection)
  "Return CONNECTION if it lives, or that to the shared daemon for nil."
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

CONNECTION is what `duet-rpc-open' has returned, or nil for the shared
daemon, which is started if there is none.

An answer that is an error signals `duet-rpc-error': see `duet-rpc-error-code'
and its neighbours.  After TIMEOUT seconds `duet-rpc-timeout' is signalled; if
the server dies meanwhile, `duet-rpc-died'.  A call that is left in any other
way, such as \\[keyboard-quit], is cancelled."
  (duet-rpc--refuse-in-handler)
  (let* ((connection (duet-rpc--connection connection))
         (outcome nil)
         (request (duet-rpc--request connection method params timeout
                                     (lambda (_request &rest it) (setq outcome it)))))
    (unwind-protect
        (while (not outcome)
          ;; An answer ends this wait at once; a timer or a death does not.
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
         ;; That is what jsonrpc.el says of a server that has died.
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
-1 if the server has died; ON-TIMEOUT with nothing.  Without ON-TIMEOUT, that
is an error without a code; without ON-ERROR, errors go to the log buffer.
None is called once the request was given to `duet-rpc-cancel'."
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
The server is told, and none of the request's functions is called any more.
Return whether there was something to cancel."
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
Calls do that by themselves.  SHOW says to tell of it in the echo area."
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
See `duet-rpc-close' for how.  SHOW says to tell of it in the echo area."
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
  "Stop the shared daemon, start it anew, and return the connection to it.
SHOW says to tell of it in the echo area."
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
It is kept in `duet-rpc-log-level' for daemons that are started later."
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
