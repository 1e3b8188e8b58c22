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

// request is one call on its way through the simulator.
type request struct {
	id        string
	service   service
	action    string
	principal principal
	http      *http.Request
	form      url.Values        // EC2, IAM, STS
	body      []byte            // the JSON protocols
	path      map[string]string // EKS: what the route's placeholders stand for

	started   time.Time
	effects   effects   // of the faults it met
	waitUntil time.Time // real time; set by an action that waits for something
	unknown   []string  // parameters that were not understood
	recorded  bool      // is in the log of calls
}

// hide is how long describing calls will miss what r makes.
func (r *request) hide() time.Duration { return r.effects.hide }

// action answers a request. It runs with the mutex held.
type action func(*request) (any, error)

// service is one AWS service: how it is spoken to and what it can do.
type service struct {
	name      string // as in the credential scope and in IAM actions
	protocol  wire.Protocol
	namespace string // XML namespace
	global    bool   // answers whatever region the caller signs for
	denied    string // the error code for a call that may not be made
	throttled string // the error code for one call too many
	unknown   string // the error code for an action that does not exist
	actions   map[string]action
	routes    []route // EKS: how method and path become an action
}

// query makes an action from a function over aws-sdk-go's input struct.
//
// A dry run ends after authorization with DryRunOperation. A repeated client
// token is answered with the first answer.
func query[In, Out any](a *account, do func(*request, *In) (*Out, error)) action {
	return checkedQuery(a, func(*In) error { return nil }, do)
}

// checkedQuery is query for actions whose dry run finds out more than
// permissions: check says what is wrong with the input and changes nothing.
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

// document makes an action from a function over a JSON document.
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

// idempotent is what a client token stands for.
type idempotent struct {
	parameters string
	answer     any
}

// once answers a client token that was seen before with its first answer.
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
