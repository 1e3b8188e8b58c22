package awssim

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// leastLatency keeps responses from being faster than those of any real service. The SDK closes a request's body as
// soon as the response starts; over loopback that can happen before net/http has seen the body's end, which then breaks
// the connection in the middle of a long response.
const leastLatency = 2 * time.Millisecond

func newRequestID() string { return uuid.NewString() }

// serve handles one request: of the admin endpoint, or of a service.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, adminPrefix) {
		s.admin.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == AgentPath {
		s.serveAgent(w, r)
		return
	}
	if other := s.answerer(r); other != s {
		other.serve(w, r)
		return
	}
	soonest := time.Now().Add(leastLatency)
	req, err := s.parse(r)
	var answer any
	if err == nil {
		answer, err = s.perform(r.Context(), req)
	}
	s.record(req, err)
	if req.effects.loseResponse {
		// The work is done; the caller's connection breaks.
		panic(http.ErrAbortHandler)
	}
	if pause(r.Context(), time.Until(soonest)) != nil {
		return // the client has disconnected
	}
	s.respond(w, req, answer, err)
}

// perform runs the action unless a fault or missing permissions prevent it.
func (s *Simulator) perform(ctx context.Context, req *request) (any, error) {
	s.meet(req)
	if err := pause(ctx, req.effects.delay); err != nil {
		return nil, err
	}
	switch {
	case req.effects.expire, req.principal.expired:
		return nil, req.service.expire()
	case req.effects.throttle:
		return nil, req.service.throttle()
	case req.effects.failure != nil:
		return nil, req.effects.failure
	}
	do, ok := req.service.actions[req.action]
	if !ok {
		return nil, wire.Errorf(req.service.unknown, "The action %s is not valid for this web service: the simulator does not know %s:%s.", req.action, req.service.name, req.action)
	}
	if err := s.authorize(req); err != nil {
		return nil, err
	}
	for {
		answer, err := s.run(req, do)
		wait, ok := errors.AsType[*tryAgain](err)
		if !ok {
			return answer, err
		}
		if err := wait.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// run runs an action on the current account and logs the call, so that the log has the order in which calls took
// effect.
func (s *Simulator) run(req *request, do action) (answer any, err error) {
	s.locked(func(a *account) {
		a.launched = nil
		if answer, err = do(req); err == nil {
			a.noteCall(req)
		}
		if _, waits := errors.AsType[*tryAgain](err); !waits {
			s.calls.add(newCall(req, err))
			req.recorded = true
		}
	})
	return answer, err
}

// record logs a call that no action has handled.
func (s *Simulator) record(req *request, err error) {
	if req.recorded {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.add(newCall(req, err))
}

// respond writes the response, or the error in the caller's protocol.
func (s *Simulator) respond(w http.ResponseWriter, req *request, answer any, err error) {
	response := wire.Response{
		Protocol:  req.service.protocol,
		Action:    req.action,
		Namespace: req.service.namespace,
		RequestID: req.id,
	}
	log := s.options.Logger.With("service", req.service.name, "action", req.action, "accessKey", req.principal.AccessKey)
	if len(req.unknown) > 0 {
		log.Warn("parameters not understood", "parameters", req.unknown)
	}
	if err == nil {
		if err = response.Write(w, answer); err == nil {
			return
		}
		log.Error("answering", "error", err)
		return
	}
	failure := wire.AsError(err)
	log.Info("call failed", "code", failure.Code, "message", failure.Message)
	if err := response.WriteError(w, failure); err != nil {
		log.Error("answering with an error", "error", err)
	}
}

// tryAgain is returned by an action without a result yet: rerun it when changed is closed, or at the deadline, when it
// returns one.
type tryAgain struct {
	changed  <-chan struct{}
	deadline time.Time
}

func (t *tryAgain) Error() string { return "nothing to answer yet" }

func (t *tryAgain) wait(ctx context.Context) error {
	timer := time.NewTimer(time.Until(t.deadline))
	defer timer.Stop()
	select {
	case <-t.changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return wire.Errorf("RequestTimeout", "the caller went away: %v", ctx.Err())
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return (&tryAgain{deadline: time.Now().Add(d)}).wait(ctx)
}

// expire returns the service's error for expired credentials.
func (s service) expire() error {
	code, message := "ExpiredToken", "The security token included in the request is expired"
	switch s.protocol {
	case wire.EC2:
		code, message = "RequestExpired", "Request has expired."
	case wire.JSON, wire.REST:
		code = "ExpiredTokenException"
	case wire.Query:
	}
	return wire.Errorf(code, "%s", message).WithStatus(http.StatusForbidden)
}

// throttle returns the service's error for a throttled call.
func (s service) throttle() error {
	status := http.StatusBadRequest
	if s.protocol == wire.EC2 {
		status = http.StatusServiceUnavailable
	}
	return wire.Errorf(s.throttled, "Request limit exceeded.").WithStatus(status)
}
