;;; jsonrpc.el --- Test of the daemon with Emacs's JSON-RPC library  -*- lexical-binding: t; -*-

;; Run: emacs -Q --batch -l jsonrpc.el, with DUET_RPC and TESTBED in the environment. Tests everything that an
;; Emacs package would do, over stdio and TCP: methods of the editor profile (C3), errors and their data (E1,
;; section 3), sequential and concurrent answers (L2, M11), notifications (M10), cancellation (P3), requests of
;; the server and events (section 4), sizes (F14), text of all kinds (F4, F5), and the end (L1, L4, L5, T2).
;;
;; Peculiarities of jsonrpc.el with any server:
;; - `jsonrpc-request' leaves the process filter with a `throw'. In Emacs 28, messages after the answer then
;;   wait until more output comes. So `call' below waits with the asynchronous function, and `jsonrpc-request'
;;   itself is used only where nothing else is pending.
;; - From Emacs 30 on, timers handle messages. If an answer and the server's end arrive together, the answer
;;   is lost. So the test looks for the answer to `shutdown' in the received bytes.
;; - It skips messages that it does not understand, and ignores unexpected answers. So the test keeps all
;;   messages, and checks them at the end of each connection.
;; - It does not expose the id of a request. Ids count from 1 on each connection.
;; - Emacs 28 reads the names of members as Latin-1, and refuses U+0000. So names are ASCII here.
;; - It does not send the `data' of an error response.

(require 'cl-lib)
(require 'jsonrpc)

(defconst patience (string-to-number (or (getenv "PATIENCE") "60")))
(defvar begun (float-time))
(setq process-adaptive-read-buffering nil
      read-process-output-max 65536)

;;; Failing

(defun check (what actual expected)
  "Fail if ACTUAL is not EXPECTED; WHAT names the check."
  (unless (equal actual expected)
    (error "%s: expected %S, got %S" what expected
           (if (and (stringp actual) (> (length actual) 1000)) (length actual) actual))))

(defun wait-for (what condition &optional process)
  "Wait until CONDITION returns true, preferably for output of PROCESS; WHAT is for the message."
  (while (not (funcall condition))
    (when (> (- (float-time) begun) patience)
      (error "%s: not seen within %s seconds" what patience))
    (accept-process-output process 0.05)
    (accept-process-output nil 0)))

;;; Connections that record their messages

(defclass remembering (jsonrpc-process-connection)
  ((received :initform nil :accessor received :documentation "Pieces of the input, newest first.")
   (notes :initform nil :accessor notes :documentation "Notifications, newest first.")
   (sent :initform 0 :accessor sent :documentation "Number of requests.")
   (ended :initform nil :accessor ended :documentation "True if all input was read and the end seen.")))

(defun serve (_connection method params)
  "Methods that the server can call."
  (pcase method
    ('add (apply #'+ (append params nil)))
    ('mirror params)
    ('refuse (jsonrpc-error :code -32099 :message "Not today" :data "is not sent"))
    ('fail (error "Something private"))
    (_ (jsonrpc-error :code -32601 :message (format "Method not found: %s" method)))))

(defun connect (name process)
  "Make a connection called NAME of PROCESS, a function."
  (let ((connection (apply #'remembering :name name :process process
                           :request-dispatcher #'serve
                           :notification-dispatcher
                           (lambda (connection method params)
                             (push (cons method params) (notes connection)))
                           :on-shutdown (lambda (connection) (setf (ended connection) t))
                           ;; No buffer with all messages, which takes longer than everything else.
                           (if (slot-exists-p 'jsonrpc-connection '-events-buffer-config)
                               '(:events-buffer-config (:size 0 :format full))
                             '(:events-buffer-scrollback-size 0)))))
    (add-function :before (process-filter (jsonrpc--process connection))
                  (lambda (_process text) (push text (received connection))))
    connection))

(defun start (name program &rest arguments)
  "Start PROGRAM with ARGUMENTS, and return a connection called NAME."
  (connect name (lambda ()
                  (make-process :name name :command (cons (getenv program) arguments) :noquery t
                                :connection-type 'pipe :coding 'utf-8-emacs-unix
                                :stderr (get-buffer-create (format "*%s stderr*" name))))))

(defun call-later (connection method params &rest functions)
  "Call METHOD with PARAMS and FUNCTIONS, and return the id."
  (apply #'jsonrpc-async-request connection method params :timeout nil functions)
  (cl-incf (sent connection)))

(defun call (connection method &optional params)
  "Call METHOD with PARAMS, and return (result IT) or (error IT)."
  (let (end)
    (call-later connection method params
                :success-fn (lambda (it) (setq end (list 'result it)))
                :error-fn (lambda (it) (setq end (list 'error it))))
    (wait-for (format "the answer to %s" method) (lambda () end) (jsonrpc--process connection))
    end))

(defun check-call (connection method params expected)
  "Fail if METHOD with PARAMS does not end as EXPECTED."
  (check method (call connection method params) expected))

(defun check-stream (connection unmatched)
  "Fail if what was received is not frames and nothing else, with one answer to each request.
UNMATCHED is the number of errors without an id that are due. Returns the answers' ids as they came."
  (let ((text (encode-coding-string (apply #'concat (reverse (received connection))) 'utf-8-emacs))
        (start 0) (nulls 0) ids)
    (while (< start (length text))
      (unless (eq (string-match "Content-Length: \\([1-9][0-9]*\\)\r\n\r\n" text start) start)
        (error "Not a frame: %S" (substring text start (min (length text) (+ start 80)))))
      (let* ((body (match-end 0))
             (end (+ body (string-to-number (match-string 1 text))))
             (message (json-parse-string (decode-coding-string (substring text body end) 'utf-8)
                                         :object-type 'alist :null-object :null)))
        (check "jsonrpc" (alist-get 'jsonrpc message) "2.0")
        (unless (assq 'method message)
          (check "members of an answer" (length message) 3)
          (if (eq (alist-get 'id message) :null) (cl-incf nulls) (push (alist-get 'id message) ids)))
        (setq start end)))
    (check "errors without an id" nulls unmatched)
    (check "one answer to each" (sort (copy-sequence ids) #'<) (number-sequence 1 (sent connection)))
    (reverse ids)))

(defun shut-down (connection)
  "End CONNECTION with `shutdown', whose answer must come before the end."
  (call-later connection 'shutdown nil :error-fn #'ignore)
  (wait-for "the end" (lambda () (ended connection)))
  (unless (string-match-p (regexp-quote "{\"message\":\"Shutting down gracefully\"}")
                          (apply #'concat (reverse (received connection))))
    (error "`shutdown' was not answered"))
  (jsonrpc-shutdown connection))

(defun check-exit (connection)
  "Fail if the server of CONNECTION has not ended as it should."
  (let ((server (jsonrpc--process connection)))
    (check "the end" (list (process-status server) (process-exit-status server)) '(exit 0))))

;;; Checks

(defconst level-data '(:param "level" :expected "one of the accepted values" :received "loud"
                       :accepted ["debug" "info" "warn" "error"]))

(defun try-errors (connection)
  "Errors, with their data."
  (check-call connection 'setLogLevel '(:level "loud")
              `(error (:code -32602 :message "Invalid params" :data ,level-data)))
  (check-call connection 'setLogLevel '(:level 5)
              `(error (:code -32602 :message "Invalid params"
                       :data (:param "level" :expected "string" :received "number"
                              :accepted ["debug" "info" "warn" "error"]))))
  (check-call connection 'nope nil '(error (:code -32601 :message "Method not found: nope"))))

(defun try-editor ()
  "The daemon as an editor starts it."
  (let ((daemon (start "editor" "DUET_RPC" "rpc"))
        (names ["initialize" "listMethods" "describeMethods" "version" "setLogLevel" "shutdown"])
        answers)
    (check-call daemon 'initialize nil '(result (:serverInfo (:name "duet-rpc" :version "0.1.0")
                                                 :protocolVersion "2.0")))
    (pcase-dolist (`(,method . ,members) '((listMethods :name :description)
                                           (describeMethods :name :params :returns)))
      (let ((list (cadr (call daemon method))))
        (check method (cl-map 'vector (lambda (it) (plist-get it :name)) list) names)
        (dolist (entry (append list nil))
          (check method (cl-loop for (member) on entry by #'cddr collect member) members))))
    (check-call daemon 'setLogLevel '(:level "WARN") '(result (:level "warn" :success t)))
    (try-errors daemon)
    ;; A notification is not answered, and is finished before the next message.
    (jsonrpc-notify daemon 'setLogLevel ["debug"])
    (jsonrpc-notify daemon 'nope nil)
    ;; The function that most packages use.
    (check "jsonrpc-request" (jsonrpc-request daemon 'version nil :timeout patience)
           '(:version "0.1.0"))
    (cl-incf (sent daemon))
    (check "jsonrpc-request, error"
           (condition-case error (jsonrpc-request daemon 'setLogLevel '(:level "loud") :timeout patience)
             (jsonrpc-error (cddr error)))
           `((jsonrpc-error-code . -32602) (jsonrpc-error-message . "Invalid params")
             (jsonrpc-error-data . ,level-data)))
    (cl-incf (sent daemon))
    ;; Many requests together, each with its own answer, in order.
    (dotimes (number 100)
      (let ((method (if (cl-evenp number) 'version (intern (format "nope%d" number)))))
        (call-later daemon method nil
                    :success-fn (lambda (it) (push (list number it) answers))
                    :error-fn (lambda (it) (push (list number it) answers)))))
    (wait-for "100 answers" (lambda () (= (length answers) 100)) (jsonrpc--process daemon))
    (cl-loop for (number answer) in (reverse answers) for place from 0
             do (check "order" number place)
             (check "one of 100" answer
                    (if (cl-evenp number) '(:version "0.1.0")
                      (list :code -32601 :message (format "Method not found: nope%d" number)))))
    (wait-for "the log" (lambda ()
                          (with-current-buffer (jsonrpc-stderr-buffer daemon)
                            (string-match-p " DEBUG .*method=version" (buffer-string)))))
    (shut-down daemon)
    (check "answers in order" (check-stream daemon 0) (number-sequence 1 (sent daemon)))
    (check-exit daemon)))

(defun try-waiting ()
  "Cancelled calls, one at a time: a call that is not cancelled would delay the rest."
  (let ((testbed (start "testbed" "TESTBED")) end)
    (check "a timeout" (condition-case error
                           (jsonrpc-request testbed 'test.sleep '(:ms 86400000) :timeout 0.05)
                         (jsonrpc-error (alist-get 'jsonrpc-error-message (cddr error))))
           "Timed out")
    (jsonrpc-notify testbed '$/cancelRequest (list :id (cl-incf (sent testbed))))
    (check-call testbed 'version nil '(result (:version "0.1.0")))
    (jsonrpc-notify testbed '$/cancelRequest
                    (list :id (call-later testbed 'test.sleep '(:ms 86400000)
                                          :success-fn (lambda (it) (setq end (list 'result it)))
                                          :error-fn (lambda (it) (setq end it)))))
    (wait-for "the cancelled answer" (lambda () end) (jsonrpc--process testbed))
    (check "cancelled" end '(:code -32800 :message "Request cancelled"))
    (check-call testbed 'test.panic nil '(error (:code -32603 :message "Internal error")))
    (check-call testbed 'test.fail '(:code -32050 :message "Out of tea" :data (:cups [0 "ä"]))
                '(error (:code -32050 :message "Out of tea" :data (:cups [0 "ä"]))))
    (check-call testbed 'test.big '(:bytes 2000000) (list 'result (make-string 2000000 ?x)))
    (check-call testbed 'test.emit '(:count 20) '(result 20))
    (check "notifications" (reverse (notes testbed))
           (cl-loop for number from 1 to 20 collect (cons 'test.event (vector number))))
    (shut-down testbed)
    (check-stream testbed 0)
    (check "notifications, later" (length (notes testbed)) 20)
    (check-exit testbed)))

(defun try-agent (daemon)
  "All methods, concurrently, on any transport."
  (try-errors daemon)
  (check-call daemon 'system.ping nil '(result "pong"))
  (dolist (params (list ["naïve Ω 漢字 🦀 e\u0301 \u2028 \u0001 \" \\ / \n \t \u007f"]
                        '(:key (:object [1 -2.5 1e-7 t :json-false nil "" []]))
                        (vector (apply #'concat (make-list 20000 "é漢🦀x")))))
    (check-call daemon 'system.echo params (list 'result params)))
  (let (answers)
    (dotimes (number 300)
      (call-later daemon 'system.echo (vector number)
                  :success-fn (lambda (it) (push (cons number it) answers))))
    (wait-for "300 answers" (lambda () (= (length answers) 300)) (jsonrpc--process daemon))
    (check "each its own" (sort (copy-sequence answers) #'car-less-than-car)
           (cl-loop for number below 300 collect (cons number (vector number)))))
  ;; The server calls us, and passes our answer on.
  (pcase-dolist (`(,method ,params ,end)
                 `(("add" [1 2 39] (result 42))
                   ("mirror" (:text "漢🦀") (result (:text "漢🦀")))
                   ("refuse" nil (error (:code -32099 :message "Not today")))
                   ("fail" nil (error (:code -32603 :message "Internal error")))
                   ("nope" nil (error (:code -32601 :message "Method not found: nope")))))
    (check-call daemon 'system.callback
                `(:method ,method ,@(and params (list :params params))) end))
  ;; Exactly the expected events, and none before or after.
  (check-call daemon 'events.subscribe '(:topics ["log"]) '(result (:topics ["log"])))
  (dolist (method '(nope1 nope2)) (jsonrpc-notify daemon method nil))
  (wait-for "two events" (lambda () (= (length (notes daemon)) 2)) (jsonrpc--process daemon))
  (check-call daemon 'events.unsubscribe '(:topics ["log"]) '(result (:topics [])))
  (jsonrpc-notify daemon 'nope3 nil)
  ;; Too large: refused with a null id, because no id was read, and the next request is served.
  (jsonrpc-notify daemon 'system.echo (vector (make-string 1200000 ?x)))
  (wait-for "the refusal" (lambda () (equal (jsonrpc-last-error daemon)
                                            '(:code -32600 :message "Invalid Request"
                                              :data (:reason "oversize"))))
            (jsonrpc--process daemon))
  (check-call daemon 'version nil '(result (:version "0.1.0")))
  (shut-down daemon)
  (check-stream daemon 1)
  (check "events" (cl-loop for (method . event) in (reverse (notes daemon))
                           for data = (plist-get event :data)
                           collect (list method (plist-get event :topic) (plist-get event :sequence)
                                         (plist-get data :severity) (plist-get data :method)))
         '((event "log" 1 "warn" "nope1") (event "log" 2 "warn" "nope2"))))

(defun try-stdio ()
  "The agent's profile, framed as Emacs can read it."
  (let ((daemon (start "agent" "DUET_RPC" "rpc" "--profile" "agent" "--framing" "lsp")))
    (try-agent daemon)
    (check-exit daemon)))

(defun try-tcp ()
  "The same over TCP, with two connections to one daemon."
  (with-temp-buffer
    (let ((server (make-process :name "listener" :buffer (current-buffer) :noquery t
                                :connection-type 'pipe :sentinel #'ignore
                                :command (list (getenv "DUET_RPC") "rpc" "--profile" "agent"
                                               "--share-log" "--framing" "lsp" "--listen" "tcp://127.0.0.1:0"))))
      (wait-for "the address" (lambda () (string-match-p "\n" (buffer-string))))
      (goto-char (point-min))
      (unless (looking-at "listening on tcp://127\\.0\\.0\\.1:\\([0-9]+\\)\n")
        (error "The first line of stderr is %S" (buffer-string)))
      (let* ((port (string-to-number (match-string 1)))
             (open (lambda (name)
                     (connect name (lambda ()
                                     (make-network-process :name name :host "127.0.0.1" :service port
                                                           :coding 'utf-8-emacs-unix :noquery t)))))
             (other (funcall open "other")))
        (try-agent (funcall open "tcp"))
        (check-call other 'version nil '(result (:version "0.1.0")))
        (interrupt-process server)
        (wait-for "the end of the daemon" (lambda () (not (process-live-p server))))
        (wait-for "the end of the other connection" (lambda () (ended other)))
        (check-stream other 0)
        (check "the daemon's end" (list (process-status server) (process-exit-status server))
               '(exit 0))))))

(let ((inhibit-message t) failed)
  (condition-case error
      (progn (try-editor) (try-waiting) (try-stdio) (try-tcp))
    (error (setq failed (error-message-string error))))
  (dolist (process (process-list))
    ;; Suppress messages about the killed process.
    (set-process-sentinel process #'ignore)
    (delete-process process))
  (setq inhibit-message nil)
  (if failed (message "jsonrpc.el: %s" failed)
    (message "jsonrpc.el: all checks passed, Emacs %s" emacs-version))
  (kill-emacs (if failed 1 0)))
