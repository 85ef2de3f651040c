;;; duet-rpc-tests-life.el --- Tests of death, stop and log of servers  -*- lexical-binding: t; -*-

;; Copyright (C) The duet-rpc developers

;; Author: The duet-rpc developers
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The second half of duet-rpc-tests.el, with its environment.

;;; Code:

(require 'duet-rpc-tests)

(defun duet-rpc-tests--kill (connection)
  "Kill the server of CONNECTION as the system does when memory is short."
  (signal-process (duet-rpc-tests--pid connection) 'SIGKILL))

(defun duet-rpc-tests--shell (script)
  "Start a server that is the shell SCRIPT."
  (duet-rpc-open "sh" (list "-c" script)))

;;; Death

(duet-rpc-tests-deftest duet-rpc-killed-daemon-is-started-again
  "The next call notices the death, and starts another daemon."
  (let ((first (duet-rpc-start)))
    (should (duet-rpc-call "version"))
    (duet-rpc-tests--kill first)
    (duet-rpc-tests--until (not (duet-rpc-live-p first)))
    (should (equal (duet-rpc-call "version") '(:version "0.1.0")))
    (should-not (eq first (duet-rpc-start)))
    (should (string-match-p "duet-rpc.el: ended with status 9\n"
                            (duet-rpc-tests--log first)))))

(duet-rpc-tests-deftest duet-rpc-death-ends-all-calls
  "It ends synchronous, asynchronous and later calls."
  (let ((connection (duet-rpc-tests--agent)) ends)
    (dotimes (_ 3)
      (duet-rpc-call-async "test.sleep" duet-rpc-tests--for-ever :connection connection
                           :on-error (lambda (error) (push error ends))))
    (run-at-time 0 nil #'duet-rpc-tests--kill connection)
    (let ((error (should-error (duet-rpc-call "test.sleep" duet-rpc-tests--for-ever
                                              :connection connection)
                               :type 'duet-rpc-died)))
      (should (string-match-p "status 9.*\\*testbed log\\*" (cadr error))))
    (duet-rpc-tests--until (= (length ends) 3))
    (should (equal (delete-dups (mapcar (lambda (end) (plist-get end :code)) ends)) '(-1)))
    (dolist (use (list #'duet-rpc-call #'duet-rpc-call-async #'duet-rpc-notify))
      (should-error (funcall use "version" nil :connection connection)
                    :type 'duet-rpc-died))
    (should (= (duet-rpc-close connection) 9))))

(duet-rpc-tests-deftest duet-rpc-dead-server-leaves-nothing
  "Buffers and processes are removed, even if the connection is not closed."
  (let ((connection (duet-rpc-tests--agent)))
    (duet-rpc-tests--kill connection)
    (duet-rpc-tests--until (not (or duet-rpc--connections (process-list))))
    (should-not (cl-remove-if-not (lambda (name)
                                    (string-match-p "testbed [^l]" name))
                                  (mapcar #'buffer-name (buffer-list))))))

(duet-rpc-tests-deftest duet-rpc-closed-stderr-is-not-the-end
  "A server may close its standard error long before it ends."
  (let ((connection (duet-rpc-tests--shell "exec 2>&-; exec tail -f /dev/null")))
    (duet-rpc-tests--until (not (process-live-p (duet-rpc--stderr connection))))
    (should (duet-rpc-live-p connection))
    (duet-rpc-tests--kill connection)
    (duet-rpc-tests--until (not (or duet-rpc--connections (process-list))))))

(duet-rpc-tests-deftest duet-rpc-names-are-never-shared
  "Each server of one program has its own buffers."
  (let ((servers (list (duet-rpc-tests--agent) (duet-rpc-tests--agent)
                       (duet-rpc-tests--agent))))
    (should (equal (mapcar #'duet-rpc-log-buffer-name servers)
                   '("*testbed log*" "*testbed<2> log*" "*testbed<3> log*")))
    (cl-loop for server in servers for number from 0
             do (should (equal (duet-rpc-call "system.echo" (vector number)
                                              :connection server)
                               (vector number))))))

;;; Stopping

(duet-rpc-tests-deftest duet-rpc-close-escalates
  "A server that ignores a step is stopped by a later step."
  (let ((duet-rpc-stop-timeout 0.1))
    (dolist (row '(("cat >/dev/null; exit 3" . 3)
                   ("exec tail -f /dev/null" . 15)
                   ("trap '' TERM; exec tail -f /dev/null" . 9)))
      (should (= (duet-rpc-close (duet-rpc-tests--shell (car row))) (cdr row))))))

(duet-rpc-tests-deftest duet-rpc-server-that-does-not-read-is-not-waited-for
  "A full pipe delays neither a call nor the stop."
  (let* ((duet-rpc-stop-timeout 0.1)
         (long (vector (make-string 500000 ?x)))
         (late 0)
         (fail (lambda (connection)
                 (should-error (duet-rpc-call "system.echo" long :connection connection
                                              :timeout 0.1)
                               :type 'duet-rpc-timeout)
                 (duet-rpc-call-async "version" nil :connection connection :timeout 0.1
                                      :on-timeout (lambda () (cl-incf late))))))
    (let ((connection (duet-rpc-tests--shell "exec tail -f /dev/null")))
      (funcall fail connection)
      (should (= (duet-rpc-close connection) 15)))
    ;; A server that reads later gets all messages, in order.
    (let ((connection (duet-rpc-tests--shell
                       (format "trap go=1 USR1; echo ready >&2
                                while [ -z \"$go\" ]; do sleep 0.01; done
                                exec '%s' --profile agent --framing lsp"
                               duet-rpc-tests--testbed))))
      (funcall fail connection)
      (duet-rpc-tests--until (string-match-p "ready" (duet-rpc-tests--log connection)))
      (signal-process (duet-rpc-tests--pid connection) 'SIGUSR1)
      (should (equal (duet-rpc-call "system.echo" long :connection connection) long))
      (setq duet-rpc-stop-timeout duet-rpc-tests--patience)
      (should (= (duet-rpc-close connection) 0)))
    (duet-rpc-tests--until (= late 2))))

(duet-rpc-tests-deftest duet-rpc-close-does-not-wait-if-shutdown-is-refused
  "If a server has no method `shutdown', its input is closed immediately."
  (let* ((answer "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"?\"}}")
         (server (duet-rpc-tests--shell
                  ;; It answers only after a request.
                  (format "head -c1 >/dev/null; printf 'Content-Length: %d\\r\\n\\r\\n%%s' '%s'
                           cat >/dev/null; exit 4"
                          (length answer) answer)))
         (begun (float-time)))
    (should (= (duet-rpc-close server) 4))
    (should (< (- (float-time) begun) duet-rpc-stop-timeout))))

(duet-rpc-tests-deftest duet-rpc-close-does-not-wait-for-an-open-stderr
  "A child of the server may keep the standard error open."
  (let ((duet-rpc-stop-timeout 0.1)
        (connection (duet-rpc-tests--shell "tail -f /dev/null & echo $! >&2; cat >/dev/null")))
    (duet-rpc-tests--until (string-match "^[0-9]+$" (duet-rpc-tests--log connection)))
    (let ((child (string-to-number (match-string 0 (duet-rpc-tests--log connection)))))
      (unwind-protect (should (= (duet-rpc-close connection) 0))
        (signal-process child 'SIGKILL)))))

(duet-rpc-tests-deftest duet-rpc-emacs-can-exit-and-commands-show-messages
  "Emacs exits without a question, and a running daemon ends with it."
  (should-not (cl-some #'process-query-on-exit-flag
                       (progn (duet-rpc-start) (process-list))))
  (with-temp-buffer
    (let* ((begin `(progn (setq duet-rpc-program ,duet-rpc-tests--daemon)
                          (mapc #'call-interactively
                                '(duet-rpc-start duet-rpc-show-version duet-rpc-ping
                                  duet-rpc-stop duet-rpc-stop duet-rpc-restart))))
           (status (call-process (expand-file-name invocation-name invocation-directory)
                                 nil t nil "-Q" "--batch" "-L" duet-rpc-tests--folder
                                 "-l" "duet-rpc" "--eval" (prin1-to-string begin))))
      (should (equal status 0))
      (goto-char (point-min))
      (dolist (like '("duet-rpc is process [0-9]+" "duet-rpc 0\\.1\\.0"
                      "duet-rpc has answered in [0-9.]+ ms"
                      "duet-rpc has ended with status 0" "duet-rpc was not running"
                      "duet-rpc is process \\([0-9]+\\)"))
        ;; In batch mode, jsonrpc.el shows messages too.
        (when (looking-at "\\[jsonrpc] .*\n") (goto-char (match-end 0)))
        (should (looking-at (concat like "\n")))
        (goto-char (match-end 0)))
      (should (eobp))
      (let ((pid (string-to-number (match-string 1))))
        (duet-rpc-tests--until (not (process-attributes pid)))))))

;;; The log

(duet-rpc-tests-deftest duet-rpc-log-is-bounded
  "It contains the newest lines, and only whole lines."
  (let* ((duet-rpc-log-size 2000)
         (connection (duet-rpc-tests--open "--log-level" "error")))
    (duet-rpc-call "setLogLevel" ["debug"] :connection connection)
    (dotimes (number 100)
      (duet-rpc-notify (format "nope%d" number) nil :connection connection))
    (duet-rpc-tests--until (string-match-p "nope99" (duet-rpc-tests--log connection)))
    (let ((log (duet-rpc-tests--log connection)))
      (should (< 1000 (length log) 2001))
      (should (string-match-p "\\`[0-9]\\{4\\}-" log))
      (should-not (string-match-p "nope1\\b" log)))
    ;; A line that is longer than the log.
    (setq duet-rpc-log-size 10)
    (duet-rpc--log connection "0123456789abcdef")
    (should (equal (duet-rpc-tests--log connection) "6789abcdef"))
    (duet-rpc--log connection "\nxyz\n")
    (should (equal (duet-rpc-tests--log connection) "xyz\n"))))

(duet-rpc-tests-deftest duet-rpc-log-can-be-off-or-killed
  "Neither affects the daemon."
  (let ((duet-rpc-log-size 0))
    (should (duet-rpc-call "version"))
    (should-not (get-buffer "*duet-rpc log*"))
    (should-error (duet-rpc-show-log) :type 'user-error)
    (should (equal (duet-rpc-stop) 0)))
  (should (duet-rpc-call "version"))
  (duet-rpc-show-log)
  (should (equal (buffer-name) "*duet-rpc log*"))
  (should (derived-mode-p 'special-mode))
  (kill-buffer)
  (duet-rpc-notify "nope")
  (duet-rpc-tests--until (get-buffer "*duet-rpc log*"))
  (should (duet-rpc-call "version")))

(duet-rpc-tests-deftest duet-rpc-events-can-be-kept
  "The buffer of jsonrpc.el with all messages can be kept for debugging."
  (let ((duet-rpc-events-size 10000))
    (duet-rpc-call "version")
    (let ((events (jsonrpc-events-buffer (duet-rpc-start))))
      (should (string-match-p "0\\.1\\.0" (with-current-buffer events (buffer-string))))
      (duet-rpc-stop)
      (should (buffer-live-p events))
      (kill-buffer events))))

;;; README

(duet-rpc-tests-deftest duet-rpc-readme-is-true
  "Each block of README.md can be evaluated, and returns the value after =>."
  (let ((blocks 0) (claims 0))
    (with-temp-buffer
      (emacs-lisp-mode)
      (insert-file-contents "README.md")
      (while (re-search-forward "^```elisp\n" nil t)
        (cl-incf blocks)
        (let ((end (copy-marker (save-excursion (re-search-forward "^```$")
                                                (match-beginning 0)))))
          (while (progn (forward-comment (buffer-size)) (< (point) end))
            (let ((value (eval (read (current-buffer)) t)))
              (when (looking-at "[ \n]*;; => \\(.*\\)")
                (cl-incf claims)
                (should (equal value (car (read-from-string (match-string 1)))))))))))
    (should (> blocks 0))
    (should (> claims 0))))

(provide 'duet-rpc-tests-life)
;;; duet-rpc-tests-life.el ends here
