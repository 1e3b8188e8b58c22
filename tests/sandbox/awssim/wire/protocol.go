package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Protocol is the protocol between a service and its clients.
type Protocol int

// The protocols that the simulated services use.
const (
	EC2   Protocol = iota // form in, XML out, lists without a member element
	Query                 // form in, XML out in a Result element (IAM, STS)
	JSON                  // X-Amz-Target and JSON, both ways (SSM, SQS, Pricing, EventBridge)
	REST                  // method, path and JSON (EKS)
)

// Response is a response to write.
type Response struct {
	Protocol  Protocol
	Action    string
	Namespace string // XML namespace; EC2 and Query only
	RequestID string
}

// Write writes body, an output struct or, for the JSON protocols, anything that encoding/json can encode. A nil body is
// an empty response.
func (r Response) Write(w http.ResponseWriter, body any) error {
	switch r.Protocol {
	case EC2, Query:
		content, err := r.xml(body)
		if err != nil {
			return fmt.Errorf("encoding the answer to %s as XML: %w", r.Action, err)
		}
		return send(w, http.StatusOK, "text/xml;charset=UTF-8", content)
	case JSON, REST:
		if body == nil {
			body = struct{}{}
		}
		content, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the answer to %s as JSON: %w", r.Action, err)
		}
		w.Header().Set("X-Amzn-RequestId", r.RequestID)
		return send(w, http.StatusOK, r.jsonType(), content)
	default:
		return fmt.Errorf("encoding the answer to %s: unknown protocol %d", r.Action, r.Protocol)
	}
}

// WriteError writes e.
func (r Response) WriteError(w http.ResponseWriter, e *Error) error {
	switch r.Protocol {
	case EC2, Query:
		return send(w, e.Status, "text/xml;charset=UTF-8", r.errorXML(e))
	default:
		content, err := json.Marshal(map[string]string{"__type": e.Code, "message": e.Message})
		if err != nil {
			return fmt.Errorf("encoding error %s as JSON: %w", e.Code, err)
		}
		w.Header().Set("X-Amzn-RequestId", r.RequestID)
		w.Header().Set("X-Amzn-ErrorType", e.Code)
		return send(w, e.Status, r.jsonType(), content)
	}
}

func (r Response) jsonType() string {
	if r.Protocol == REST {
		return "application/json"
	}
	return "application/x-amz-json-1.1"
}

func send(w http.ResponseWriter, status int, contentType string, content []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("sending the answer: %w", err)
	}
	return nil
}
