;;; duet-rpc-tests.el --- Tests of duet-rpc.el with the real daemon  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Environment variables: DUET_RPC is the daemon, TESTBED is the daemon with
;; methods that misbehave, PATIENCE is the time in seconds after which a test
;; fails.  The script `check' runs all tests.

;;; Code:

(require 'cl-lib)
(require 'duet-rpc)
(require 'ert)

(defconst duet-rpc-tests--daemon (expand-file-name (or (getenv "DUET_RPC") "duet-rpc")))
(defconst duet-rpc-tests--testbed (expand-file-name (or (getenv "TESTBED") "testbed")))
(defconst duet-rpc-tests--patience (string-to-number (or (getenv "PATIENCE") "60")))
(defconst duet-rpc-tests--folder
  (file-name-directory (or load-file-name buffer-file-name default-directory)))

;; Longer than any test: only a cancellation ends it in time.
(defconst duet-rpc-tests--for-ever '(:ms 86400000))

(defmacro duet-rpc-tests--until (condition)
  "Wait for CONDITION to become true, and fail if it does not."
  `(let ((deadline (+ (float-time) duet-rpc-tests--patience)))
     (while (not ,condition)
       (when (> (float-time) deadline)
         (ert-fail (list "The condition never became true" ',condition)))
       (accept-process-output nil 0.02))))

(defmacro duet-rpc-tests-deftest (name doc &rest body)
  "Define the test NAME with DOC: run BODY, and check that nothing is left over."
  (declare (indent 1) (doc-string 2))
  `(ert-deftest ,name ()
     ,doc
     (let ((default-directory duet-rpc-tests--folder)
           (duet-rpc-program duet-rpc-tests--daemon)
           (duet-rpc-arguments '("rpc"))
           (duet-rpc-log-level 'info)
           (duet-rpc-log-size 100000)
           (duet-rpc-timeout duet-rpc-tests--patience)
           (duet-rpc-stop-timeout duet-rpc-tests--patience)
           (duet-rpc--requests (make-hash-table :test #'equal))
           (duet-rpc--notifications (make-hash-table :test #'equal))
           (buffers (buffer-list)))
       (unwind-protect
           (progn ,@body)
         (duet-rpc-stop)
         (mapc #'duet-rpc-close duet-rpc--connections)
         (dolist (buffer (buffer-list))
           (when (string-suffix-p " log*" (buffer-name buffer))
             (kill-buffer buffer))))
       (should-not (process-list))
       (should-not duet-rpc--connections)
       (should-not (cl-remove " *code-conversion-work*"
                              (mapcar #'buffer-name
                                      (cl-set-difference (buffer-list) buffers))
                              :test #'equal)))))

(defun duet-rpc-tests--open (&rest arguments)
  "Start the test bed with ARGUMENTS."
  (duet-rpc-open duet-rpc-tests--testbed arguments))

(defun duet-rpc-tests--agent ()
  "Start the test bed with all methods."
  (duet-rpc-tests--open "--profile" "agent" "--framing" "lsp"))

(defun duet-rpc-tests--pid (connection)
  "Return the process number of CONNECTION's server."
  (process-id (duet-rpc--server connection)))

(defun duet-rpc-tests--log (connection)
  "Return the text of the log of CONNECTION."
  (with-current-buffer (duet-rpc-log-buffer-name connection) (buffer-string)))

(defun duet-rpc-tests--raise ()
  "Signal an error that does not stop in the debugger of ERT."
  (let ((debug-on-error nil)) (error "This is meant to fail")))

(defun duet-rpc-tests--error (function)
  "Return the error that FUNCTION signals as (SYMBOL CODE MESSAGE DATA)."
  (condition-case error
      (ert-fail (list "This should have failed" (funcall function)))
    (duet-rpc-error (list (car error) (duet-rpc-error-code error)
                          (duet-rpc-error-message error) (duet-rpc-error-data error)))))

(defun duet-rpc-tests--failure (connection method &optional params)
  "Call METHOD with PARAMS on CONNECTION and return its error, as above."
  (duet-rpc-tests--error
   (lambda () (duet-rpc-call method params :connection connection))))

;;; The shared daemon

(duet-rpc-tests-deftest duet-rpc-one-daemon-is-started-and-shared
  "The first call starts the daemon, the next calls use it, and it can be stopped."
  (should-not (duet-rpc-stop))
  (should (equal (duet-rpc-call "version") '(:version "0.1.0")))
  (should (equal (duet-rpc-call 'initialize)
                 '(:serverInfo (:name "duet-rpc" :version "0.1.0")
                   :protocolVersion "2.0")))
  (let ((connection (duet-rpc-start)))
    (should (eq connection (duet-rpc-start)))
    (should (= (length duet-rpc--connections) 1))
    (should (equal (duet-rpc-stop) 0))
    (should-not (duet-rpc-live-p connection))
    (should-not (duet-rpc-stop))))

(duet-rpc-tests-deftest duet-rpc-restart-makes-another
  "A restarted daemon is another process, and the old one is gone."
  (let* ((old (duet-rpc-start))
         (new (duet-rpc-restart)))
    (should-not (duet-rpc-live-p old))
    (should-not (= (duet-rpc-tests--pid old) (duet-rpc-tests--pid new)))
    (should (eq new (duet-rpc-start)))
    (should (equal (duet-rpc-call "version") '(:version "0.1.0")))))

(duet-rpc-tests-deftest duet-rpc-log-level-is-set-and-kept
  "The level takes effect immediately, and for the next daemon too."
  (should (eq (duet-rpc-set-log-level 'debug) 'debug))
  (duet-rpc-call "version")
  (duet-rpc-tests--until (string-match-p " DEBUG .*method=version"
                                         (duet-rpc-tests--log (duet-rpc-start))))
  (let ((connection (duet-rpc-restart)))
    (duet-rpc-tests--until (string-match-p " level=debug "
                                           (duet-rpc-tests--log connection))))
  (should (equal (duet-rpc-tests--error (lambda () (duet-rpc-set-log-level 'loud)))
                 '(duet-rpc-error -32602 "Invalid params"
                   (:param "level" :expected "one of the accepted values"
                    :received "loud" :accepted ["debug" "info" "warn" "error"]))))
  (should (eq duet-rpc-log-level 'debug)))

(duet-rpc-tests-deftest duet-rpc-missing-program-is-reported
  "The message names the program and the setting; nothing is left behind."
  (let* ((duet-rpc-program "/nowhere/duet-rpc")
         (error (should-error (duet-rpc-call "version") :type 'user-error)))
    (should (string-match-p "/nowhere/duet-rpc.*duet-rpc-program" (cadr error))))
  ;; A program that exists but cannot be started leaves no callback in the queue.
  (should-error (duet-rpc-open duet-rpc-tests--daemon '(1)) :type 'wrong-type-argument)
  (should-not duet-rpc--queue))

(duet-rpc-tests-deftest duet-rpc-bad-arguments-are-reported
  "The error of a daemon that ends immediately has its status and its log buffer."
  (let* ((duet-rpc-arguments '("rpc" "--nonsense"))
         (error (should-error (duet-rpc-call "version") :type 'duet-rpc-died)))
    (should (string-match-p "status 2.*\\*duet-rpc log\\*" (cadr error)))
    (duet-rpc-tests--until (string-match-p "--nonsense"
                                           (with-current-buffer "*duet-rpc log*"
                                             (buffer-string))))))

;;; Calls

(duet-rpc-tests-deftest duet-rpc-errors-carry-code-message-and-data
  "An error answer is a Lisp error, for users of jsonrpc.el too."
  (let ((connection (duet-rpc-tests--agent)))
    (should (equal (duet-rpc-tests--failure connection "nope")
                   '(duet-rpc-error -32601 "Method not found: nope" nil)))
    (should (equal (duet-rpc-tests--failure
                    connection "test.fail"
                    '(:code -32050 :message "Out of tea" :data (:cups 0)))
                   '(duet-rpc-error -32050 "Out of tea" (:cups 0))))
    (should (equal (car (duet-rpc-tests--failure connection "test.panic")) 'duet-rpc-error))
    (should-error (duet-rpc-call "nope" nil :connection connection)
                  :type 'jsonrpc-error)))

(duet-rpc-tests-deftest duet-rpc-values-come-back-as-they-were
  "Text of all kinds, large messages, and the values that JSON has."
  (let ((connection (duet-rpc-tests--agent)))
    (dolist (params (list '(:text "naïve Ω 漢字 🦀 \u0001 \" \\ \n")
                          '[1 -2.5 t :json-false nil "" [] (:a [(:b nil)])]
                          (list :text (apply #'concat (make-list 50000 "é漢🦀x")))))
      (should (equal (duet-rpc-call "system.echo" params :connection connection)
                     params)))
    (should (equal (duet-rpc-call "test.big" '(:bytes 900000) :connection connection)
                   (make-string 900000 ?x)))))

(duet-rpc-tests-deftest duet-rpc-timeout-ends-a-call-on-both-sides
  "The caller gets an error, and the server stops working on the call."
  ;; One at a time: the next call is served only if the first was cancelled.
  (let ((connection (duet-rpc-tests--open)))
    (should (equal (duet-rpc-tests--error
                    (lambda ()
                      (duet-rpc-call "test.sleep" duet-rpc-tests--for-ever
                                     :connection connection :timeout 0.1)))
                   '(duet-rpc-timeout nil nil nil)))
    (should (duet-rpc-call "version" nil :connection connection))))

(duet-rpc-tests-deftest duet-rpc-call-that-is-quit-is-cancelled
  "A throw out of the waiting call, as with \\[keyboard-quit], cancels the call."
  (let ((connection (duet-rpc-tests--open)))
    (should (eq 'left (catch 'left
                        (run-at-time 0 nil (lambda () (throw 'left 'left)))
                        (duet-rpc-call "test.sleep" duet-rpc-tests--for-ever
                                       :connection connection))))
    (should (duet-rpc-call "version" nil :connection connection))))

(duet-rpc-tests-deftest duet-rpc-asynchronous-calls-end-once
  "Each calls exactly one of its three functions, with its own answer."
  (let ((connection (duet-rpc-tests--agent)) ends)
    (cl-flet ((call (method params &rest more)
                (apply #'duet-rpc-call-async method params :connection connection
                       :on-success (lambda (it) (push (list 'result it) ends))
                       :on-error (lambda (it) (push (list 'error it) ends))
                       more)))
      (call "test.fail" '(:code -32050 :message "No" :data [1]))
      (duet-rpc-tests--until ends)
      (should (equal ends '((error (:code -32050 :message "No" :data [1])))))
      (call "test.sleep" duet-rpc-tests--for-ever :timeout 0.05
            :on-timeout (lambda () (push 'timeout ends)))
      (duet-rpc-tests--until (cdr ends))
      (call "test.sleep" duet-rpc-tests--for-ever :timeout 0.05)
      (duet-rpc-tests--until (cddr ends))
      (should (equal (seq-take ends 2) '((error (:message "Timed out")) timeout)))
      (setq ends nil)
      (dotimes (number 300) (call "system.echo" (vector number)))
      (duet-rpc-tests--until (= (length ends) 300))
      (should (equal (sort (mapcar (lambda (end) (aref (cadr end) 0)) ends) #'<)
                     (number-sequence 0 299))))))

(duet-rpc-tests-deftest duet-rpc-cancelled-call-has-no-callback
  "Its functions are not called, and the server serves the next call."
  (let* ((connection (duet-rpc-tests--open))
         (called nil)
         (call (lambda (method params)
                 (duet-rpc-call-async method params :connection connection
                                      :on-success (lambda (_) (setq called 'result))
                                      :on-error (lambda (_) (setq called 'error)))))
         (slow (funcall call "test.sleep" duet-rpc-tests--for-ever))
         (quick (progn (should (duet-rpc-cancel slow))
                       (funcall call "version" nil))))
    (should-not (duet-rpc-cancel slow))
    ;; The quick call is answered, and its function waits for a timer, so it
    ;; can still be cancelled.  From Emacs 30 on, the timer may already have run.
    (duet-rpc-tests--until
     (progn (accept-process-output (duet-rpc--server connection) 1 nil 1)
            (not (eq (duet-rpc-request-state quick) 'waiting))))
    (should (eq (duet-rpc-cancel quick) (not called)))
    (let ((before called))
      (should (duet-rpc-call "version" nil :connection connection))
      (should (eq called before)))))

;;; Requests and notifications from the server

(duet-rpc-tests-deftest duet-rpc-notifications-reach-their-functions
  "They arrive in order; a function may fail, and may call the server."
  (let ((connection (duet-rpc-tests--agent)) seen)
    (duet-rpc-handle-notification "test.event"
                                  (lambda (_connection params)
                                    (push (aref params 0) seen)
                                    (when (= (aref params 0) 2) (duet-rpc-tests--raise))
                                    (duet-rpc-call "system.ping" nil
                                                   :connection connection)))
    (should (= (duet-rpc-call "test.emit" '(:count 50) :connection connection) 50))
    (duet-rpc-tests--until (= (length seen) 50))
    (should (equal (nreverse seen) (number-sequence 1 50)))
    ;; A function for this connection has precedence over one for all.
    (setq seen nil)
    (duet-rpc-handle-notification 'test.event (lambda (&rest it) (push it seen)) connection)
    (duet-rpc-call "test.emit" '(:count 1) :connection connection)
    (duet-rpc-tests--until seen)
    (should (equal seen (list (list connection [1]))))
    ;; Without a function, the log reports the notification.
    (duet-rpc-handle-notification 'test.event nil connection)
    (duet-rpc-handle-notification 'test.event nil)
    (duet-rpc-call "test.emit" '(:count 1) :connection connection)
    (duet-rpc-tests--until (string-match-p "no handler for the notification \"test.event\""
                                           (duet-rpc-tests--log connection)))))

(duet-rpc-tests-deftest duet-rpc-function-that-throws-does-not-delay-others
  "After a quit or a throw from the debugger, the next functions are called."
  (let ((connection (duet-rpc-tests--agent)) seen)
    (duet-rpc-handle-notification "test.event"
                                  (lambda (_connection params)
                                    (push (aref params 0) seen)
                                    (when (= (aref params 0) 2) (throw 'left t))))
    (should (catch 'left
              (duet-rpc-call "test.emit" '(:count 5) :connection connection)
              (duet-rpc-tests--until (= (length seen) 5))))
    (duet-rpc-tests--until (= (length seen) 5))
    (should (equal (nreverse seen) '(1 2 3 4 5)))))

(duet-rpc-tests-deftest duet-rpc-events-are-notifications
  "The daemon's events arrive as documented."
  (let ((connection (duet-rpc-tests--agent)) events)
    (duet-rpc-handle-notification "event" (lambda (_ it) (push it events)) connection)
    (should (equal (duet-rpc-call "events.subscribe" '(:topics ["log"])
                                  :connection connection)
                   '(:topics ["log"])))
    (duet-rpc-notify "nope" nil :connection connection)
    (duet-rpc-tests--until events)
    (let ((event (car (last events))))
      (should (equal (plist-get event :topic) "log"))
      (should (equal (plist-get event :sequence) 1))
      (should (equal (plist-get (plist-get event :data) :method) "nope")))))

(duet-rpc-tests-deftest duet-rpc-server-calls-us
  "Its requests are answered with a result or an error."
  (let ((connection (duet-rpc-tests--agent)) later)
    (cl-flet ((callback (method params)
                (duet-rpc-call "system.callback" (list :method method :params params)
                               :connection connection))
              (failure (method)
                (duet-rpc-tests--failure connection "system.callback"
                                         (list :method method))))
      (duet-rpc-handle-request "sum" (lambda (_ numbers) (apply #'+ (append numbers nil))))
      (should (= (callback "sum" [1 2 39]) 42))
      (duet-rpc-handle-request 'sum (lambda (_ it) (list :own it)) connection)
      (should (equal (callback "sum" [1 "ä🦀"]) '(:own [1 "ä🦀"])))
      (should (equal (failure "nope") '(duet-rpc-error -32601 "Method not found: nope" nil)))
      (duet-rpc-handle-request "no" (lambda (&rest _)
                                      (jsonrpc-error :code -32099 :message "Not today")))
      (should (equal (failure "no") '(duet-rpc-error -32099 "Not today" nil)))
      (duet-rpc-handle-request "text" (lambda (&rest _) (jsonrpc-error "No %s" "tea")))
      (should (equal (failure "text") '(duet-rpc-error -32603 "No tea" nil)))
      (duet-rpc-handle-request "bug" (lambda (&rest _) (duet-rpc-tests--raise)))
      (should (equal (failure "bug") '(duet-rpc-error -32603 "Internal error" nil)))
      (duet-rpc-handle-request "junk" (lambda (&rest _)
                                        (vector (current-buffer))))
      (should (equal (failure "junk") '(duet-rpc-error -32603 "Internal error" nil)))
      (should (string-match-p "a result is not JSON: (wrong-type-argument"
                              (duet-rpc-tests--log connection)))
      (duet-rpc-handle-request "quit" (lambda (&rest _) (signal 'quit nil)))
      (should (equal (failure "quit") '(duet-rpc-error -32603 "The user has quit" nil)))
      ;; Two ends that wait for each other would wait for ever.
      (duet-rpc-handle-request "wait" (lambda (connection _)
                                        (let ((debug-on-error nil))
                                          (duet-rpc-call "version" nil
                                                         :connection connection))))
      (should (equal (failure "wait") '(duet-rpc-error -32603 "Internal error" nil)))
      (duet-rpc-handle-request "ask" (lambda (connection _)
                                       (duet-rpc-call-async
                                        "system.ping" nil :connection connection
                                        :on-success (lambda (it) (setq later it)))
                                       "asked"))
      (should (equal (callback "ask" nil) "asked"))
      (duet-rpc-tests--until later)
      (should (equal later "pong")))))

(provide 'duet-rpc-tests)
;;; duet-rpc-tests.el ends here
