;;; duet-rpc-server.el --- Start, stop and handle JSON-RPC servers  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The part of duet-rpc.el that starts and stops servers, keeps their logs,
;; and handles their requests and notifications.

;;; Code:

(require 'cl-lib)
(require 'eieio)
(require 'let-alist)
(require 'jsonrpc)

;;; Options

(defgroup duet-rpc nil
  "A client for the duet-rpc daemon and other JSON-RPC servers."
  :group 'comm
  :prefix "duet-rpc-")

(defcustom duet-rpc-stop-timeout 2
  "Maximum time of each step of stopping a server, in seconds.
The steps are `shutdown', the end of its input, SIGTERM and SIGKILL."
  :group 'duet-rpc
  :type 'number)

(defcustom duet-rpc-log-size 100000
  "Maximum size of the log of a server's standard error, in characters.
The oldest lines are dropped first.  With 0, there is no log buffer."
  :group 'duet-rpc
  :type 'integer)

(defcustom duet-rpc-events-size 0
  "Size of jsonrpc.el's buffer of all sent and received messages.
It helps with debugging.  With 0, there is no such buffer."
  :group 'duet-rpc
  :type 'integer)

;;; Connections

(defclass duet-rpc-connection (jsonrpc-process-connection)
  ((server :initarg :server :accessor duet-rpc--server
           :documentation "The server's process.")
   (stderr :initarg :stderr :accessor duet-rpc--stderr
           :documentation "The pipe for the server's standard error.")
   (requests :initform (make-hash-table :test #'equal)
             :accessor duet-rpc--own-requests
             :documentation "Functions that answer the server, by method.")
   (notifications :initform (make-hash-table :test #'equal)
                  :accessor duet-rpc--own-notifications
                  :documentation "Functions to notify, by method.")
   (ended :initform nil :accessor duet-rpc--ended
          :documentation "Non-nil if jsonrpc.el knows that the server has ended."))
  :documentation "A connection to a server process.")

(defvar duet-rpc--connections nil "All connections that still have buffers.")

(defun duet-rpc-live-p (connection)
  "Return non-nil if the server of CONNECTION is alive."
  (and connection (process-live-p (duet-rpc--server connection)) t))

(defun duet-rpc-log-buffer-name (connection)
  "Return the name of the buffer with the log of CONNECTION's server."
  (format "*%s log*" (jsonrpc-name connection)))

;;;###autoload
(cl-defun duet-rpc-open (program &optional arguments &key name)
  "Start PROGRAM with ARGUMENTS, a list, and return a connection to it.
Pass the connection as the `:connection' of calls, and close it with
`duet-rpc-close'.  If the server dies, calls to it signal `duet-rpc-died'.
NAME is used for its buffers.  The default is the name of PROGRAM.  If the
name is taken, a number is added.  PROGRAM must frame its messages with
Content-Length."
  (mapc #'duet-rpc--clean-up
        (cl-remove-if #'duet-rpc-live-p duet-rpc--connections))
  (let* ((file (or (executable-find program)
                   (user-error "Cannot find the program `%s': install it, or pass \
its path; `duet-rpc-program' is the path of the shared daemon" program)))
         (name (duet-rpc--free-name (or name (file-name-base program))))
         ;; This directory always exists, is never remote, and keeps no file
         ;; system busy.
         (default-directory "/")
         ;; Without adaptive buffering, answers arrive without a delay.
         (process-adaptive-read-buffering nil)
         (stderr (duet-rpc--make-stderr name))
         server connection)
    (unwind-protect
        (setq server (make-process :name name :command (cons file arguments)
                                   :coding 'utf-8-emacs-unix :noquery t
                                   :connection-type 'pipe :stderr stderr)
              connection
              (apply #'duet-rpc-connection
                     :name name :process server :server server :stderr stderr
                     :request-dispatcher #'duet-rpc--answer
                     :notification-dispatcher #'duet-rpc--notified
                     :on-shutdown #'duet-rpc--on-end
                     ;; The first name is for Emacs 30 and newer.
                     (if (slot-exists-p 'jsonrpc-connection '-events-buffer-config)
                         `(:events-buffer-config
                           (:size ,duet-rpc-events-size :format full))
                       `(:events-buffer-scrollback-size ,duet-rpc-events-size))))
      (unless connection
        (when server (delete-process server))
        (delete-process stderr)
        (kill-buffer (process-buffer stderr))))
    (process-put stderr 'duet-rpc-connection connection)
    (push connection duet-rpc--connections)
    (duet-rpc--log connection (format "duet-rpc.el: started %s\n" file))
    connection))

(defun duet-rpc-close (connection)
  "Close CONNECTION, stop its server, and return the server's exit status.
Send `shutdown', then close its input, then send SIGTERM, then SIGKILL, until
the server has ended, with `duet-rpc-stop-timeout' seconds for each step."
  (duet-rpc--refuse-in-handler)
  (let ((server (duet-rpc--server connection))
        ;; jsonrpc.el shows a message when a server has ended.
        (inhibit-message t)
        refused)
    (dolist (step (list (lambda ()
                          (jsonrpc-async-request connection 'shutdown nil
                                                 :timeout nil
                                                 :error-fn (lambda (_error)
                                                             (setq refused t))))
                        (lambda () (process-send-eof server))
                        (lambda () (signal-process server 'SIGTERM))
                        (lambda () (signal-process server 'SIGKILL))))
      (when (duet-rpc-live-p connection)
        (setq refused nil)
        ;; The server may end before this step.
        (ignore-errors (duet-rpc--within duet-rpc-stop-timeout step #'ignore))
        (duet-rpc--wait (lambda () (or refused (duet-rpc--ended connection))))))
    (duet-rpc--wait (lambda () (duet-rpc--gone-p connection)))
    (duet-rpc--clean-up connection)
    (process-exit-status server)))

(defun duet-rpc--free-name (name)
  "Return NAME, with a number if a connection has this name already.
Two connections with one name would share jsonrpc.el's buffers and messages."
  (let ((taken (mapcar #'jsonrpc-name duet-rpc--connections))
        (number 1)
        (free name))
    (while (member free taken)
      (setq free (format "%s<%d>" name (cl-incf number))))
    free))

(defun duet-rpc--wait (condition)
  "Wait for CONDITION to hold, at most `duet-rpc-stop-timeout' seconds."
  (let ((deadline (+ (float-time) duet-rpc-stop-timeout)))
    (while (not (or (funcall condition) (> (float-time) deadline)))
      (accept-process-output nil 0.05))))

(defun duet-rpc--within (seconds send late)
  "Call SEND; if it takes longer than SECONDS, abandon it and call LATE.
Sending waits while the server does not read.  Emacs keeps the unsent rest,
and sends it before anything else.  If SECONDS is nil, there is no limit."
  (if seconds
      (with-timeout (seconds (funcall late)) (funcall send))
    (funcall send)))

(defun duet-rpc--on-end (connection)
  "Handle the end of CONNECTION's server, which jsonrpc.el has noticed."
  (setf (duet-rpc--ended connection) t)
  (duet-rpc--log connection (format "duet-rpc.el: ended with status %d\n"
                                    (process-exit-status
                                     (duet-rpc--server connection))))
  ;; Not immediately: jsonrpc.el may still use one of its buffers.
  (duet-rpc--later #'duet-rpc--settle connection))

(defun duet-rpc--gone-p (connection)
  "Return non-nil if CONNECTION's server has ended and its stderr was read."
  (and (duet-rpc--ended connection)
       (not (process-live-p (duet-rpc--stderr connection)))))

(defun duet-rpc--settle (connection)
  "Clean up after CONNECTION if nothing more can arrive from it."
  (when (duet-rpc--gone-p connection)
    (duet-rpc--clean-up connection)))

(defun duet-rpc--clean-up (connection)
  "Remove everything of CONNECTION, whose server has ended, except its log."
  (when (memq connection duet-rpc--connections)
    ;; Emacs may know about the end of the server before jsonrpc.el does.
    (duet-rpc--wait (lambda () (duet-rpc--ended connection)))
    (setq duet-rpc--connections (delq connection duet-rpc--connections))
    (let* ((server (duet-rpc--server connection))
           (stderr (duet-rpc--stderr connection))
           (buffers (list (process-buffer server) (process-buffer stderr)
                          (jsonrpc-stderr-buffer connection)
                          ;; jsonrpc.el creates this buffer even if its size is 0.
                          (and (<= duet-rpc-events-size 0)
                               (jsonrpc-events-buffer connection)))))
      (delete-process server)
      (delete-process stderr)
      (mapc #'kill-buffer (cl-remove-if-not #'buffer-live-p buffers)))))

;;; Requests and notifications from the server

(defvar duet-rpc--requests (make-hash-table :test #'equal)
  "Functions that answer requests of any server, by method.")
(defvar duet-rpc--notifications (make-hash-table :test #'equal)
  "Functions that handle notifications of any server, by method.")

(defun duet-rpc-handle-request (method function &optional connection)
  "Let FUNCTION answer requests for METHOD; if it is nil, remove the handler.
With CONNECTION, handle only requests from that connection, otherwise all.

FUNCTION is called with the connection and the params, and returns the result.
To answer with an error, it calls `jsonrpc-error' with a code and a message.
Any other error, and a quit, is answered as an internal error.
FUNCTION must not wait for the server, because the server waits for it."
  (duet-rpc--register method function
                      (if connection (duet-rpc--own-requests connection)
                        duet-rpc--requests)))

(defun duet-rpc-handle-notification (method function &optional connection)
  "Let FUNCTION handle notifications METHOD; if it is nil, remove the handler.
With CONNECTION, handle only those from that connection, otherwise all.
FUNCTION is called with the connection and the params."
  (duet-rpc--register method function
                      (if connection (duet-rpc--own-notifications connection)
                        duet-rpc--notifications)))

(defvar duet-rpc--in-handler nil "Non-nil while a request handler runs.")

(defun duet-rpc--refuse-in-handler ()
  "Signal an error in a request handler, which must not wait for the server."
  (when duet-rpc--in-handler
    (error "A function that answers the server cannot wait for it; \
use `duet-rpc-call-async'")))

(defun duet-rpc--register (method function table)
  "Put FUNCTION for METHOD into TABLE; if FUNCTION is nil, remove the entry."
  (let ((name (format "%s" method)))
    (if function (puthash name function table) (remhash name table))
    nil))

(defun duet-rpc--answer (connection method params)
  "Return the result of the request METHOD with PARAMS from CONNECTION."
  (let* ((name (symbol-name method))
         (function (or (gethash name (duet-rpc--own-requests connection))
                       (gethash name duet-rpc--requests)
                       (jsonrpc-error :code -32601
                                      :message (concat "Method not found: " name))))
         (duet-rpc--in-handler t))
    (condition-case error
        (funcall function connection params)
      ;; jsonrpc.el would not answer, and would not handle the next messages.
      (quit (jsonrpc-error :code -32603 :message "The user has quit"))
      (jsonrpc-error
       ;; Up to Emacs 29, `jsonrpc-error' with a text uses a positive code.
       (let-alist (cddr error)
         (jsonrpc-error :code (if (eql .jsonrpc-error-code 32603) -32603
                                .jsonrpc-error-code)
                        :message .jsonrpc-error-message))))))

(cl-defmethod jsonrpc-connection-send :around ((connection duet-rpc-connection)
                                               &rest message &key id &allow-other-keys)
  "Send MESSAGE; if it is a result that is not JSON, answer ID with an error."
  (condition-case error
      (cl-call-next-method)
    (error
     (unless (plist-member message :result) (signal (car error) (cdr error)))
     (duet-rpc--log connection (format "duet-rpc.el: a result is not JSON: %S\n" error))
     (cl-call-next-method connection :id id :error
                          '(:code -32603 :message "Internal error")))))

(defun duet-rpc--notified (connection method params)
  "Handle the notification METHOD with PARAMS from CONNECTION."
  (let* ((name (symbol-name method))
         (function (or (gethash name (duet-rpc--own-notifications connection))
                       (gethash name duet-rpc--notifications))))
    (if function
        (duet-rpc--later function connection params)
      (duet-rpc--log connection
                     (format "duet-rpc.el: no handler for the notification %S\n" name)))))

(defvar duet-rpc--queue nil "Functions to call, with their arguments, in order.")
(defvar duet-rpc--queue-end nil "The last cell of `duet-rpc--queue'.")

(defun duet-rpc--later (function &rest arguments)
  "Call FUNCTION with ARGUMENTS soon, after the functions queued before it.
It must not run in a filter: in Emacs 28, an error in a filter delays the next
messages, and waiting for the next message breaks the current one."
  (let ((cell (list (cons function arguments))))
    (if duet-rpc--queue
        (setcdr duet-rpc--queue-end cell)
      (setq duet-rpc--queue cell)
      (run-at-time 0 nil #'duet-rpc--run-queue))
    (setq duet-rpc--queue-end cell)))

(defun duet-rpc--run-queue ()
  "Run the functions that `duet-rpc--later' has queued."
  (unwind-protect
      (while duet-rpc--queue
        (let ((call (car duet-rpc--queue)))
          ;; Remove it first, because the call may wait and run this again.
          (setq duet-rpc--queue (cdr duet-rpc--queue))
          (with-demoted-errors "Error in a function that duet-rpc has called: %S"
            (apply call))))
    ;; A call that was quit, or left from the debugger, must not delay the
    ;; next calls.
    (when duet-rpc--queue
      (run-at-time 0 nil #'duet-rpc--run-queue))))

;;; The log

(define-derived-mode duet-rpc-log-mode special-mode "duet-rpc log"
  "Mode of the buffer with a server's log."
  (buffer-disable-undo))

(defun duet-rpc--make-stderr (name)
  "Make a pipe for the standard error of the server NAME."
  ;; The pipe has its own, empty buffer: killing the log must not close it.
  (make-pipe-process :name (concat name " stderr") :noquery t
                     :buffer (generate-new-buffer (format " *%s pipe*" name))
                     :coding 'utf-8-unix
                     :filter (lambda (pipe text)
                               (duet-rpc--log (process-get pipe 'duet-rpc-connection)
                                              text))
                     :sentinel (lambda (pipe _change)
                                 (let ((connection
                                        (process-get pipe 'duet-rpc-connection)))
                                   ;; It is nil if the server was not started.
                                   (when connection
                                     (duet-rpc--later #'duet-rpc--settle
                                                      connection))))))

(defun duet-rpc--log (connection text)
  "Add TEXT to the log of CONNECTION, and drop the oldest lines."
  (when (> duet-rpc-log-size 0)
    (with-current-buffer (get-buffer-create (duet-rpc-log-buffer-name connection))
      (unless (derived-mode-p 'duet-rpc-log-mode) (duet-rpc-log-mode))
      (let ((inhibit-read-only t)
            ;; Windows that show the end continue to show the end.
            (following (cl-remove-if-not (lambda (window)
                                           (= (window-point window) (point-max)))
                                         (get-buffer-window-list nil nil t))))
        (save-excursion
          (goto-char (point-max))
          (insert text)
          (when (> (buffer-size) duet-rpc-log-size)
            (goto-char (- (point-max) duet-rpc-log-size))
            ;; Delete whole lines, except if one line is longer than the log.
            (unless (bolp) (search-forward "\n" (1- (point-max)) t))
            (delete-region (point-min) (point))))
        (dolist (window following)
          (set-window-point window (point-max)))))))

(provide 'duet-rpc-server)
;;; duet-rpc-server.el ends here
