;;; duet-rpc-server.el --- Servers, and what they send by themselves  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The part of duet-rpc.el that starts servers and ends them, keeps their
;; logs, and passes on what they send without being asked.

;;; Code:

(require 'cl-lib)
(require 'eieio)
(require 'let-alist)
(require 'jsonrpc)

;;; What can be set

(defgroup duet-rpc nil
  "A JSON-RPC daemon, and servers that are spoken with in the same way."
  :group 'comm
  :prefix "duet-rpc-")

(defcustom duet-rpc-stop-timeout 2
  "How many seconds each step to stop a server is given.
The steps are `shutdown', the end of its input, SIGTERM and SIGKILL."
  :group 'duet-rpc
  :type 'number)

(defcustom duet-rpc-log-size 100000
  "How many characters of a server's standard error are kept.
The oldest lines go first.  With 0, there is no log buffer."
  :group 'duet-rpc
  :type 'integer)

(defcustom duet-rpc-events-size 0
  "Size of jsonrpc.el's buffer of all messages, which helps to find faults.
With 0, there is none.  It holds all that is sent and received."
  :group 'duet-rpc
  :type 'integer)

;;; Connections

(defclass duet-rpc-connection (jsonrpc-process-connection)
  ((server :initarg :server :accessor duet-rpc--server
           :documentation "The server's process.")
   (stderr :initarg :stderr :accessor duet-rpc--stderr
           :documentation "The pipe that the server's standard error goes to.")
   (requests :initform (make-hash-table :test #'equal)
             :accessor duet-rpc--own-requests
             :documentation "Functions that answer the server, by method.")
   (notifications :initform (make-hash-table :test #'equal)
                  :accessor duet-rpc--own-notifications
                  :documentation "Functions to notify, by method.")
   (ended :initform nil :accessor duet-rpc--ended
          :documentation "Whether jsonrpc.el knows that the server has ended."))
  :documentation "A connection to a server that was started for it.")

(defvar duet-rpc--connections nil "All connections that still have buffers.")

(defun duet-rpc-live-p (connection)
  "Tell whether the server behind CONNECTION is alive."
  (and connection (process-live-p (duet-rpc--server connection)) t))

(defun duet-rpc-log-buffer-name (connection)
  "Return the name of the buffer with the log of CONNECTION's server."
  (format "*%s log*" (jsonrpc-name connection)))

;;;###autoload
(cl-defun duet-rpc-open (program &optional arguments &key name)
  "Start PROGRAM with ARGUMENTS, a list, and return a connection to it.
It is yours: use it as the `:connection' of calls, and end it with
`duet-rpc-close'.  Should it die, calls to it signal `duet-rpc-died'.
NAME is for its buffers, that of PROGRAM if nil; a number is added if it is
taken.  PROGRAM must frame its messages with Content-Length."
  (mapc #'duet-rpc--clean-up
        (cl-remove-if #'duet-rpc-live-p duet-rpc--connections))
  (let* ((file (or (executable-find program)
                   (user-error "Cannot find the program `%s': install it, or say \
where it is; for the shared daemon, in `duet-rpc-program'" program)))
         (name (duet-rpc--free-name (or name (file-name-base program))))
         ;; Always there, never remote, and no file system is kept busy.
         (default-directory "/")
         ;; Answers are wanted at once, and not a few at a time.
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
                     ;; The first is jsonrpc.el's name since Emacs 30.
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
  "End CONNECTION and its server, and return the server's exit status.
The server is asked with `shutdown'.  If that does not help, its input is
ended, then it gets SIGTERM, then SIGKILL, with `duet-rpc-stop-timeout'
seconds for each."
  (duet-rpc--refuse-in-handler)
  (let ((server (duet-rpc--server connection))
        ;; jsonrpc.el tells in the echo area that a server has ended.
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
        ;; It may be gone before the step is taken.
        (ignore-errors (duet-rpc--within duet-rpc-stop-timeout step #'ignore))
        (duet-rpc--wait (lambda () (or refused (duet-rpc--ended connection))))))
    (duet-rpc--wait (lambda () (duet-rpc--gone-p connection)))
    (duet-rpc--clean-up connection)
    (process-exit-status server)))

(defun duet-rpc--free-name (name)
  "Return NAME, with a number if a connection has it already.
Two of one name would share jsonrpc.el's buffers, and their messages."
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
  "Call SEND, and if it takes longer than SECONDS, leave it and call LATE.
To send waits for as long as the server does not read.  Emacs keeps what is
left, and sends it before anything else.  For SECONDS of nil there is no limit."
  (if seconds
      (with-timeout (seconds (funcall late)) (funcall send))
    (funcall send)))

(defun duet-rpc--on-end (connection)
  "Note that jsonrpc.el has seen the end of CONNECTION's server."
  (setf (duet-rpc--ended connection) t)
  (duet-rpc--log connection (format "duet-rpc.el: ended with status %d\n"
                                    (process-exit-status
                                     (duet-rpc--server connection))))
  ;; Not at once: jsonrpc.el may still be at work in one of its buffers.
  (duet-rpc--later #'duet-rpc--settle connection))

(defun duet-rpc--gone-p (connection)
  "Tell whether CONNECTION's server has ended and has said its last words."
  (and (duet-rpc--ended connection)
       (not (process-live-p (duet-rpc--stderr connection)))))

(defun duet-rpc--settle (connection)
  "Clean up behind CONNECTION if nothing more can come from it."
  (when (duet-rpc--gone-p connection)
    (duet-rpc--clean-up connection)))

(defun duet-rpc--clean-up (connection)
  "Leave nothing of CONNECTION, whose server has ended, but its log."
  (when (memq connection duet-rpc--connections)
    ;; Its death may be known to Emacs, and not yet to jsonrpc.el.
    (duet-rpc--wait (lambda () (duet-rpc--ended connection)))
    (setq duet-rpc--connections (delq connection duet-rpc--connections))
    (let* ((server (duet-rpc--server connection))
           (stderr (duet-rpc--stderr connection))
           (buffers (list (process-buffer server) (process-buffer stderr)
                          (jsonrpc-stderr-buffer connection)
                          ;; It is made at the end, even if it is not wanted.
                          (and (<= duet-rpc-events-size 0)
                               (jsonrpc-events-buffer connection)))))
      (delete-process server)
      (delete-process stderr)
      (mapc #'kill-buffer (cl-remove-if-not #'buffer-live-p buffers)))))

;;; What the server sends by itself

(defvar duet-rpc--requests (make-hash-table :test #'equal)
  "Functions that answer any server, by method.")
(defvar duet-rpc--notifications (make-hash-table :test #'equal)
  "Functions that any server notifies, by method.")

(defun duet-rpc-handle-request (method function &optional connection)
  "Let FUNCTION answer the server's requests of METHOD, or nobody for nil.
With CONNECTION only those that come from there, else all.

FUNCTION is called with the connection and the params, and returns the result.
It answers with an error of its choice through `jsonrpc-error', of which
jsonrpc.el sends the code and the message; any other error is an internal one,
and so is a quit, as at a question that FUNCTION asks the user.
The server waits for it, so it must not wait for the server."
  (duet-rpc--register method function
                      (if connection (duet-rpc--own-requests connection)
                        duet-rpc--requests)))

(defun duet-rpc-handle-notification (method function &optional connection)
  "Let FUNCTION have the server's notifications of METHOD, or nobody for nil.
With CONNECTION only those that come from there, else all.
FUNCTION is called with the connection and the params."
  (duet-rpc--register method function
                      (if connection (duet-rpc--own-notifications connection)
                        duet-rpc--notifications)))

(defvar duet-rpc--in-handler nil "Whether a request of the server is handled.")

(defun duet-rpc--refuse-in-handler ()
  "Signal an error if the server waits for us: we must not wait for it."
  (when duet-rpc--in-handler
    (error "A function that answers the server cannot wait for it; \
use `duet-rpc-call-async'")))

(defun duet-rpc--register (method function table)
  "Put FUNCTION for METHOD into TABLE, or remove what is there."
  (let ((name (format "%s" method)))
    (if function (puthash name function table) (remhash name table))
    nil))

(defun duet-rpc--answer (connection method params)
  "Return the result of METHOD with PARAMS, which CONNECTION has sent."
  (let* ((name (symbol-name method))
         (function (or (gethash name (duet-rpc--own-requests connection))
                       (gethash name duet-rpc--requests)
                       (jsonrpc-error :code -32601
                                      :message (concat "Method not found: " name))))
         (duet-rpc--in-handler t))
    (condition-case error
        (funcall function connection params)
      ;; jsonrpc.el would not answer at all, and leave the messages behind it.
      (quit (jsonrpc-error :code -32603 :message "The user has quit"))
      (jsonrpc-error
       ;; Up to Emacs 29, the code that stands for a text has lost its minus.
       (let-alist (cddr error)
         (jsonrpc-error :code (if (eql .jsonrpc-error-code 32603) -32603
                                .jsonrpc-error-code)
                        :message .jsonrpc-error-message))))))

(cl-defmethod jsonrpc-connection-send :around ((connection duet-rpc-connection)
                                               &rest message &key id &allow-other-keys)
  "Send MESSAGE, and if it is a result that is no JSON, answer ID nevertheless."
  (condition-case error
      (cl-call-next-method)
    (error
     (unless (plist-member message :result) (signal (car error) (cdr error)))
     (duet-rpc--log connection (format "duet-rpc.el: an answer is no JSON: %S\n" error))
     (cl-call-next-method connection :id id :error
                          '(:code -32603 :message "Internal error")))))

(defun duet-rpc--notified (connection method params)
  "Pass METHOD with PARAMS on, which CONNECTION has sent."
  (let* ((name (symbol-name method))
         (function (or (gethash name (duet-rpc--own-notifications connection))
                       (gethash name duet-rpc--notifications))))
    (if function
        (duet-rpc--later function connection params)
      (duet-rpc--log connection
                     (format "duet-rpc.el: nobody handles the notification %S\n" name)))))

(defvar duet-rpc--queue nil "Functions to call, with their arguments, in order.")
(defvar duet-rpc--queue-end nil "The last cell of `duet-rpc--queue'.")

(defun duet-rpc--later (function &rest arguments)
  "Call FUNCTION with ARGUMENTS soon, behind what was put here before.
A filter is no place for it: in Emacs 28, an error there holds up the
messages behind, and a wait for the next message breaks the one at hand."
  (let ((cell (list (cons function arguments))))
    (if duet-rpc--queue
        (setcdr duet-rpc--queue-end cell)
      (setq duet-rpc--queue cell)
      (run-at-time 0 nil #'duet-rpc--run-queue))
    (setq duet-rpc--queue-end cell)))

(defun duet-rpc--run-queue ()
  "Call what `duet-rpc--later' has put by."
  (unwind-protect
      (while duet-rpc--queue
        (let ((call (car duet-rpc--queue)))
          ;; Before the call, which may wait and come here again.
          (setq duet-rpc--queue (cdr duet-rpc--queue))
          (with-demoted-errors "Error in a function that duet-rpc has called: %S"
            (apply call))))
    ;; One that was left with C-g, or from the debugger, must not keep those
    ;; behind it waiting.
    (when duet-rpc--queue
      (run-at-time 0 nil #'duet-rpc--run-queue))))

;;; The log

(define-derived-mode duet-rpc-log-mode special-mode "duet-rpc log"
  "Mode of the buffer with a server's log."
  (buffer-disable-undo))

(defun duet-rpc--make-stderr (name)
  "Make a pipe for the standard error of the server NAME."
  ;; Its own buffer stays empty: killing the log must not close the pipe.
  (make-pipe-process :name (concat name " stderr") :noquery t
                     :buffer (generate-new-buffer (format " *%s pipe*" name))
                     :coding 'utf-8-unix
                     :filter (lambda (pipe text)
                               (duet-rpc--log (process-get pipe 'duet-rpc-connection)
                                              text))
                     :sentinel (lambda (pipe _change)
                                 (let ((connection
                                        (process-get pipe 'duet-rpc-connection)))
                                   ;; There is none if the server was not started.
                                   (when connection
                                     (duet-rpc--later #'duet-rpc--settle
                                                      connection))))))

(defun duet-rpc--log (connection text)
  "Add TEXT to the log of CONNECTION, and drop what is too old."
  (when (> duet-rpc-log-size 0)
    (with-current-buffer (get-buffer-create (duet-rpc-log-buffer-name connection))
      (unless (derived-mode-p 'duet-rpc-log-mode) (duet-rpc-log-mode))
      (let ((inhibit-read-only t)
            ;; Who looks at the end goes on looking at the end.
            (following (cl-remove-if-not (lambda (window)
                                           (= (window-point window) (point-max)))
                                         (get-buffer-window-list nil nil t))))
        (save-excursion
          (goto-char (point-max))
          (insert text)
          (when (> (buffer-size) duet-rpc-log-size)
            (goto-char (- (point-max) duet-rpc-log-size))
            ;; Whole lines, but for one that is longer than all the log.
            (unless (bolp) (search-forward "\n" (1- (point-max)) t))
            (delete-region (point-min) (point))))
        (dolist (window following)
          (set-window-point window (point-max)))))))

(provide 'duet-rpc-server)
;;; duet-rpc-server.el ends here
