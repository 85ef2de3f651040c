;;; eglot.el --- Test of the example language server with Eglot  -*- lexical-binding: t; -*-

;; Run: emacs -Q --batch -l eglot.el, with the example in SERVER. Opens a file with Eglot. Flymake and ElDoc
;; must show what the server reports about the text, immediately and after edits, with multi-byte characters and
;; surrogate pairs before the words (P7, L2). At the end the server must exit after `shutdown' and `exit' (L4).
;; Its output must consist of frames (L1, F17): one answer per request, one notification per state of the text.
;;
;; A batch Emacs displays nothing and is never idle. So this script itself starts the checks that Flymake would
;; start on display, and sends the changes that Eglot would send when idle. After `exit', jsonrpc.el gives a
;; server a tenth of a second, or none in Emacs 28, before it kills it. Here it has to wait.

(require 'cl-lib)
(require 'seq)
;; Eglot is part of Emacs since 29; for older versions, Debian installs it here.
(unless (locate-library "eglot")
  (dolist (folder (file-expand-wildcards "/usr/share/emacs/site-lisp/elpa/eglot-[0-9]*"))
    (add-to-list 'load-path folder)))
(require 'eglot)
(require 'flymake)

(defconst patience (string-to-number (or (getenv "PATIENCE") "60")))
(defvar begun (float-time))
(setq eglot-sync-connect patience
      eglot-connect-timeout patience
      eglot-autoreconnect nil
      jsonrpc-default-request-timeout patience
      eglot-server-programs `((text-mode . (,(getenv "SERVER")))))

(defun check (what actual expected)
  "Fail if ACTUAL is not EXPECTED; WHAT names the check."
  (unless (equal actual expected)
    (error "%s: expected %S, got %S" what expected actual)))

(defun wait-for (what condition)
  "Wait until CONDITION returns true; WHAT is for the message."
  (while (not (funcall condition))
    (when (> (- (float-time) begun) patience)
      (error "%s: not seen within %s seconds" what patience))
    (accept-process-output nil 0.02)))

(defvar received nil "Output of the server, newest piece first.")
(advice-add 'jsonrpc--process-filter :before (lambda (_process text) (push text received)))

(advice-add 'jsonrpc-shutdown :before
            (lambda (server &rest _)
              (wait-for "the end"
                        (lambda ()
                          (process-get (jsonrpc--process server) 'jsonrpc-sentinel-cleanup-started)))))

(defun messages ()
  "All received messages, oldest first; fail if they are not well framed."
  (let ((text (encode-coding-string (apply #'concat (reverse received)) 'utf-8-emacs))
        (start 0) messages)
    (while (< start (length text))
      (unless (eq (string-match "Content-Length: \\([1-9][0-9]*\\)\r\n\r\n" text start) start)
        (error "Not a frame: %S" (substring text start (min (length text) (+ start 80)))))
      (let ((body (match-end 0)))
        (setq start (+ body (string-to-number (match-string 1 text))))
        (push (json-parse-string (decode-coding-string (substring text body start) 'utf-8)
                                 :object-type 'alist)
              messages)))
    (reverse messages)))

(defun check-messages (server changes)
  "Fail if there is not one answer from SERVER to each request, and a note to the first text and to CHANGES."
  (let (ids versions)
    (dolist (message (messages))
      (check "jsonrpc" (alist-get 'jsonrpc message) "2.0")
      (if (not (assq 'method message))
          (push (alist-get 'id message) ids)
        (check "the only notification" (alist-get 'method message) "textDocument/publishDiagnostics")
        (push (alist-get 'version (alist-get 'params message)) versions)))
    (check "one answer to each" (sort ids #'<)
           (number-sequence 1 (jsonrpc--next-request-id server)))
    ;; Eglot counts edits, and one message may contain several.
    (check (format "a note to each, of versions %S" versions)
           (list (length versions) (apply #'> versions)) (list (1+ changes) t))))

(defun shown ()
  "Diagnostics in Flymake, in order: (LINE COLUMN TEXT-THERE TYPE MESSAGE)."
  (flymake-start)
  (sort (mapcar (lambda (it)
                  (let ((start (flymake-diagnostic-beg it)))
                    (save-excursion
                      (goto-char start)
                      (list (line-number-at-pos) (- start (line-beginning-position))
                            (buffer-substring-no-properties start (flymake-diagnostic-end it))
                            (flymake-diagnostic-type it)
                            (replace-regexp-in-string "\\`plain-text[^:]*: " ""
                                                      (flymake-diagnostic-text it))))))
                (flymake-diagnostics))
        (lambda (a b) (or (< (car a) (car b)) (and (= (car a) (car b)) (< (cadr a) (cadr b)))))))

(defun check-shown (what expected)
  "Wait until Flymake shows EXPECTED."
  (let (last)
    (condition-case error
        (wait-for what (lambda () (equal (setq last (shown)) expected)))
      (error (error "%s; shown is %S, expected %S" (cadr error) last expected)))))

(defun change (function)
  "Call FUNCTION, which edits, and let Eglot send the change."
  (funcall function)
  (eglot--signal-textDocument/didChange))

(defun hover-at (text)
  "Text that ElDoc would show in the middle of TEXT, which is searched for."
  (goto-char (point-min))
  (search-forward text)
  (backward-char 1)
  (let (said)
    (eglot-hover-eldoc-function (lambda (it &rest _) (setq said (list it))))
    (wait-for (format "hover at %s" text) (lambda () said))
    (and (car said) (substring-no-properties (car said)))))

(defun check-hover (text characters times)
  "Fail if hover at TEXT does not say that it has CHARACTERS and occurs TIMES."
  (let ((said (or (hover-at text) "")))
    (check (format "hover at %s" text)
           ;; Eglot may have removed the Markdown markup, or left it in.
           (replace-regexp-in-string "`" "" (string-trim said))
           (format "%s\n\n%s, %s in this document" text characters times))))

(defun try-server (file)
  "Run all checks in FILE."
  (with-temp-file file
    (insert "A TODO stands here.\nThe the word is doubled.  \n" (make-string 103 ?x) "\nfine\n"))
  (find-file file)
  (text-mode)
  (call-interactively #'eglot)
  (let* ((server (or (eglot-current-server) (error "Eglot has not connected")))
         (process (jsonrpc--process server))
         (task '(eglot-note "A task is left here"))
         (doubled '(eglot-warning "The word is doubled"))
         (space '(eglot-warning "White space at the end of the line"))
         (long '(eglot-note "The line is longer than 100 characters")))
    (check "the server's name" (plist-get (eglot--server-info server) :name) "plain-text")
    (check "hover is offered" (plist-get (eglot--capabilities server) :hoverProvider) t)
    (check-shown "the first findings"
                 `((1 2 "TODO" ,@task) (2 4 "the" ,@doubled) (2 24 "  " ,@space) (3 100 "xxx" ,@long)))
    (check-hover "fine" "4 characters" "once")
    ;; Multi-byte characters and surrogate pairs before the match. Two changes in one message.
    (change (lambda ()
              (goto-char (point-min))
              (insert "é漢🦀 ")
              (goto-char (point-max))
              (insert "🦀🦀 TODO 🦀 naïve Naïve 🦀\n")))
    (check-shown "findings after multi-byte characters"
                 `((1 6 "TODO" ,@task) (2 4 "the" ,@doubled) (2 24 "  " ,@space) (3 100 "xxx" ,@long)
                   (5 3 "TODO" ,@task) (5 16 "Naïve" ,@doubled)))
    (check-hover "naïve" "5 characters" "once")
    (check-hover "TODO" "4 characters" "2 times")
    ;; In the middle of such a line: the server must count positions as Emacs does.
    (change (lambda ()
              (goto-char (point-max))
              (search-backward "Naïve")
              (delete-region (point) (+ (point) 5))
              (insert "漢字 TODO")
              (goto-char (point-min))
              (search-forward "doubled.")
              (delete-region (point) (line-end-position))
              (search-forward "xxx")
              (replace-match "")))
    (check-shown "findings after edits in such lines"
                 `((1 6 "TODO" ,@task) (2 4 "the" ,@doubled) (5 3 "TODO" ,@task) (5 19 "TODO" ,@task)))
    (check-hover "TODO" "4 characters" "3 times")
    (check-hover "漢字" "2 characters" "once")
    ;; A text without matches has no diagnostics.
    (change (lambda () (erase-buffer) (insert "all is well 🦀\n")))
    (check-shown "nothing" nil)
    (change (lambda () (goto-char (point-max)) (insert "TODO\n")))
    (check-shown "the last finding" `((2 0 "TODO" ,@task)))
    (set-buffer-modified-p nil)
    (eglot-shutdown server nil patience t)
    (check "the end" (list (process-status process) (process-exit-status process)) '(exit 0))
    (check "managed" (eglot-current-server) nil)
    (check-messages server 4)))

(let* ((folder (make-temp-file "eglot" t))
       (inhibit-message t)
       failed)
  (condition-case error
      (if (getenv "SERVER") (try-server (expand-file-name "text.txt" folder))
        (error "SERVER names no program"))
    (error (setq failed (error-message-string error))))
  (dolist (process (process-list))
    ;; Suppress messages about the killed process.
    (set-process-sentinel process #'ignore)
    (delete-process process))
  (set-buffer-modified-p nil)
  (delete-directory folder t)
  (setq inhibit-message nil)
  (if failed (message "eglot.el: %s" failed)
    (message "eglot.el: all checks passed, Emacs %s, %s" emacs-version
             (file-name-nondirectory (directory-file-name (file-name-directory
                                                           (locate-library "eglot"))))))
  (kill-emacs (if failed 1 0)))
