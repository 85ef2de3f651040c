(require 'cl-lib)
(require 'jsonrpc)

(defvar PREFIX-timeout 30
  "Seconds to wait for an answer, unless a call has its own timeout.")

(define-error 'PREFIX-error "Error of the server" 'jsonrpc-error)
(define-error 'PREFIX-timeout "No answer in time" 'jsonrpc-error)

(cl-defstruct (PREFIX--request (:copier nil))
  "A request that was sent."
  connection id (is-open t))

(defvar PREFIX--sending nil
  "The request that is being sent, or nil.")

(cl-defmethod jsonrpc-connection-send :extra "PREFIX" :before
  ((_connection jsonrpc-connection) &key id &allow-other-keys)
  "Remember ID as the id of the request that is being sent."
  (when (and PREFIX--sending (not (PREFIX--request-id PREFIX--sending)))
    (setf (PREFIX--request-id PREFIX--sending) id)))

(defun PREFIX--send (connection method params timeout errors success error)
  "Send METHOD with PARAMS to CONNECTION, and return the request.
Call SUCCESS with the result, or ERROR with a condition, which ERRORS, an
alist of codes and symbols, names.  Wait for at most TIMEOUT seconds."
  (let* ((request (make-PREFIX--request :connection connection))
         (end (lambda (function value)
                (when (PREFIX--request-is-open request)
                  (setf (PREFIX--request-is-open request) nil)
                  (funcall function value))))
         (PREFIX--sending request))
    (jsonrpc-async-request
     connection method params :timeout timeout
     :success-fn (lambda (result) (funcall end success result))
     :error-fn (lambda (answer)
                 (funcall end error (PREFIX--condition answer errors)))
     :timeout-fn (lambda ()
                   (when (PREFIX--request-is-open request)
                     (PREFIX--tell-cancelled request))
                   (funcall end error
                            (list 'PREFIX-timeout (format "%s" method)))))
    request))

(defun PREFIX--call (connection method params timeout errors)
  "Send METHOD with PARAMS to CONNECTION, and wait for the result.
TIMEOUT and ERRORS are as in `PREFIX--send'.  A quit cancels the request."
  (let* ((outcome nil)
         (request (PREFIX--send
                   connection method params timeout errors
                   (lambda (result) (setq outcome (list 'result result)))
                   (lambda (condition) (setq outcome (list 'error condition))))))
    (unwind-protect
        (while (not outcome) (accept-process-output nil 0.05))
      (unless outcome (PREFIX-cancel request)))
    (pcase outcome
      (`(result ,result) result)
      (`(error ,condition) (signal (car condition) (cdr condition))))))

(defun PREFIX-cancel (request)
  "Cancel REQUEST, which an async function has returned.
The server gets a cancellation, and no function of the request is called.
Return non-nil if the request was still open."
  (when (PREFIX--request-is-open request)
    (setf (PREFIX--request-is-open request) nil)
    (PREFIX--tell-cancelled request)
    t))

(defun PREFIX--tell-cancelled (request)
  "Send a cancellation of REQUEST to its server."
  (ignore-errors
    (jsonrpc-notify (PREFIX--request-connection request) '$/cancelRequest
                    (list :id (PREFIX--request-id request)))))

(defun PREFIX--condition (answer errors)
  "Return the condition of ANSWER, with a symbol from the alist ERRORS."
  (cl-destructuring-bind (&key code message data &allow-other-keys) answer
    (list (or (cdr (assoc code errors)) 'PREFIX-error)
          (format "%s (%s)" message code)
          (cons 'jsonrpc-error-code code)
          (cons 'jsonrpc-error-message message)
          (cons 'jsonrpc-error-data data))))

