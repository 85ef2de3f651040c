;;; client.el --- Test of a generated Emacs Lisp client with a real server (A9)  -*- lexical-binding: t; -*-

;;; Commentary:

;; Environment: SERVER is the server, PATIENCE the time limit in seconds.  Exits with 0 if and only if all checks
;; passed.

;;; Code:

(require 'described-client)

(setq debug-on-error nil)
(run-with-timer (string-to-number (or (getenv "PATIENCE") "60")) nil
                (lambda () (message "nothing more came in time") (kill-emacs 1)))

(defconst client-hour 3600000)
(setq described-client-timeout nil)
(defvar client-told nil)
(defvar client-process nil)

(defun client-check (what got wanted)
  "Check that the value GOT of WHAT equals WANTED."
  (unless (equal got wanted)
    (message "%s: got %S, wanted %S" what got wanted)
    (kill-emacs 1)))

(defun client-connect ()
  "Start the server, and return a connection to it."
  (setq client-process
        (make-process :name "server" :command (list (getenv "SERVER") "lsp") :connection-type 'pipe
                      :coding 'utf-8-emacs-unix :noquery t
                      :stderr (get-buffer-create "*server stderr*")))
  ;; A log of all messages is slow.
  (apply #'make-instance 'jsonrpc-process-connection :name "server" :process client-process
         :events-buffer-scrollback-size 0
         (described-client-callbacks
          :user-choose
          (lambda (_connection params)
            ;; jsonrpc.el sends no data with an error.
            (if (equal (plist-get params :question) "fail?")
                (jsonrpc-error :code 1002 :message "from the user")
              (let ((choices (plist-get params :choices)))
                (aref choices (1- (length choices))))))
          :user-tell (lambda (_connection params) (push (plist-get params :text) client-told)))))

(defun client-shapes (connection)
  "Send params of every shape to CONNECTION."
  (client-check "a default" (described-client-add connection :a 1) 2)
  (client-check "both params" (described-client-add connection :a 1 :b 41) 42)
  (let* ((tree '(:nodeName "a" :children [(:nodeName "b") (:nodeName "ü🦀" :children [])]))
         (turned (described-client-reverse connection :tree tree)))
    (client-check "a tree" (plist-get (aref (plist-get turned :children) 0) :nodeName) "ü🦀"))
  (client-check "a map" (described-client-areas connection :figures '(:a (:kind "circle" :radius 2)))
                '(:a 12.0))
  (client-check "a pair" (described-client-swap connection :pair [7 "x"]) ["x" 7])
  (client-check "left out" (described-client-echo connection :class "c") ["c" nil :json-false])
  (client-check "null" (described-client-echo connection :class "c" :none nil :flag t) ["c" nil t])
  (client-check "given" (described-client-echo connection :class "c" :none 3) ["c" 3 :json-false])
  (client-check "a missing argument"
                (condition-case problem (described-client-add connection)
                  (error (cadr problem)))
                "Missing argument: :a"))

(defun client-errors (connection)
  "Get errors of CONNECTION as symbols."
  (client-check "an error"
                (condition-case problem (described-client-add connection :a 1000000 :b 1)
                  (described-client-too-large-error
                   (list (alist-get 'jsonrpc-error-code (cddr problem))
                         (alist-get 'jsonrpc-error-data (cddr problem)))))
                '(1001 (:limit 1000000)))
  (client-check "another error"
                (condition-case nil (described-client-fail connection)
                  (described-client-no-such-thing-error 'right))
                'right))

(defun client-cancellation (connection)
  "Cancel calls of CONNECTION by a timeout, by hand and by a throw."
  (client-check "a timeout"
                (condition-case problem (described-client-sleep connection :ms client-hour :timeout 0.05)
                  (described-client-timeout (cadr problem)))
                "sleep")
  (let ((request (described-client-sleep-async connection #'ignore #'ignore :ms client-hour)))
    (client-check "cancel" (described-client-cancel request) t)
    (client-check "cancel again" (described-client-cancel request) nil))
  (catch 'quit
    (run-with-timer 0.05 nil (lambda () (throw 'quit nil)))
    (described-client-sleep connection :ms client-hour))
  (while (/= (described-client-running connection) 0)
    (accept-process-output nil 0.01)))

(defun client-user (connection)
  "Let the server of CONNECTION call."
  (client-check "a callback" (described-client-ask connection :question "really?") "no")
  (client-check "a notification" client-told '("asked: really?"))
  (client-check "an error of the user"
                (condition-case problem (described-client-ask connection :question "fail?")
                  (described-client-no-such-thing-error (alist-get 'jsonrpc-error-code (cddr problem))))
                1002))

(defun client-load (connection)
  "Make 1,000 calls of CONNECTION, and send 100 notifications."
  (let ((sums (make-vector 1000 nil)) (left 1000))
    (dotimes (number 1000)
      (described-client-add-async
       connection
       (lambda (sum) (aset sums number sum) (setq left (1- left)))
       (lambda (problem) (client-check "1,000 calls" problem nil))
       :a number :b number))
    (while (> left 0) (accept-process-output nil 0.05))
    (dotimes (number 1000) (client-check "a sum" (aref sums number) (* 2 number))))
  (dotimes (_ 100) (described-client-count connection :by 1))
  (while (< (described-client-counted connection) 100) (accept-process-output nil 0.01))
  (client-check "notifications" (described-client-counted connection) 100))

(let ((connection (client-connect)))
  (client-shapes connection)
  (client-errors connection)
  (client-cancellation connection)
  (client-user connection)
  (client-load connection)
  (process-send-eof client-process)
  (while (process-live-p client-process) (accept-process-output client-process 0.05))
  (client-check "the exit status" (process-exit-status client-process) 0))

;;; client.el ends here
