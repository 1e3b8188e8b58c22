package awssim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// request is one call to the simulator.
type request struct {
	id        string
	service   service
	action    string
	principal principal
	http      *http.Request
	form      url.Values        // EC2, IAM, STS
	body      []byte            // the JSON protocols
	path      map[string]string // EKS: the values of the route's placeholders

	started   time.Time
	effects   effects   // of the faults that apply
	waitUntil time.Time // real time; set by an action that waits
	unknown   []string  // unsupported parameters
	via       string    // the service that makes the call for the caller; empty: the caller itself
	recorded  bool      // is in the log of calls
}

// hide is how long describing calls omit what r creates.
func (r *request) hide() time.Duration { return r.effects.hide }

// action executes a request. It runs with the mutex held.
type action func(*request) (any, error)

// service is one AWS service: its protocol and its actions.
type service struct {
	name      string // as in the credential scope and in IAM actions
	protocol  wire.Protocol
	namespace string // XML namespace
	global    bool   // accepts any region in the signature
	denied    string // the error code for a denied call
	throttled string // the error code for a throttled call
	unknown   string // the error code for an action that does not exist
	actions   map[string]action
	routes    []route // EKS: maps method and path to an action
}

// query returns an action for a function of aws-sdk-go's input struct.
//
// A dry run ends after authorization with DryRunOperation. A repeated client token gets the first response.
func query[In, Out any](a *account, do func(*request, *In) (*Out, error)) action {
	return checkedQuery(a, func(*In) error { return nil }, do)
}

// checkedQuery is like query, for actions whose dry run checks more than permissions: check validates the input and
// changes nothing.
func checkedQuery[In, Out any](a *account, check func(*In) error, do func(*request, *In) (*Out, error)) action {
	return func(r *request) (any, error) {
		in := new(In)
		unknown, err := wire.DecodeQuery(r.service.protocol, r.form, in)
		if err != nil {
			return nil, err
		}
		r.unknown = unknown
		if err := check(in); err != nil {
			return nil, err
		}
		if r.form.Get("DryRun") == "true" {
			return nil, wire.Errorf("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").WithStatus(http.StatusPreconditionFailed)
		}
		return a.once(r, func() (any, error) { return do(r, in) })
	}
}

// document returns an action for a function of a JSON document.
func document[In, Out any](do func(*request, *In) (*Out, error)) action {
	return func(r *request) (any, error) {
		in := new(In)
		if len(r.body) > 0 {
			if err := json.Unmarshal(r.body, in); err != nil {
				return nil, wire.Errorf("SerializationException", "reading the request to %s: %v", r.action, err)
			}
		}
		return do(r, in)
	}
}

// idempotent is the result for a client token.
type idempotent struct {
	parameters string
	answer     any
}

// once returns the first response for a client token that was seen before.
func (a *account) once(r *request, do func() (any, error)) (any, error) {
	token := r.form.Get("ClientToken")
	if token == "" {
		return do()
	}
	key := r.service.name + ":" + r.action + ":" + token
	parameters := fmt.Sprintf("%x", sha256.Sum256([]byte(r.form.Encode())))
	if seen, ok := a.tokens[key]; ok {
		if seen.parameters != parameters {
			return nil, wire.Errorf("IdempotentParameterMismatch", "The client token %s was used before with other parameters.", token)
		}
		return seen.answer, nil
	}
	answer, err := do()
	if err == nil {
		a.tokens[key] = idempotent{parameters, answer}
	}
	return answer, err
}
