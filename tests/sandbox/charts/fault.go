package charts

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault is what goes wrong for some requests, for as long as it stands.
type Fault struct {
	// Path is a part of the request's path, such as "/karpenter-crd/manifests/". Empty: every request.
	Path string
	// Delay holds the answer back; a client that goes away ends it.
	Delay time.Duration
	// Status is answered instead of the chart. Zero: the chart after all.
	Status int
	// Away breaks the connection before there is an answer, as a proxy does whose registry is gone.
	Away bool
	// Truncate breaks the connection in the middle of the answer.
	Truncate bool
	// Corrupt changes the last byte of the answer.
	Corrupt bool
}

// Request is one thing that was asked of the registry.
type Request struct {
	Method, Path string
	// Status is what was answered.
	Status int
}

// Inject makes requests go wrong from now on, until the returned function is called. The first fault that matches a request counts.
func (r *Registry) Inject(f Fault) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()

	standing := &f
	r.faults = append(r.faults, standing)

	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()

		r.faults = slices.DeleteFunc(r.faults, func(other *Fault) bool { return other == standing })
	}
}

// Requests are all requests so far, in the order of their answers.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.requests)
}

// ServeHTTP answers as an OCI registry, after what was injected.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() { r.note(Request{Method: req.Method, Path: req.URL.Path, Status: seen.status}) }()

	fault := r.faultFor(req)
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-req.Context().Done():
			return
		}
	}

	switch {
	case fault.Away:
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		http.Error(seen, "a fault was injected into the sandbox's registry", fault.Status)
	case fault.Truncate, fault.Corrupt:
		r.spoil(seen, req, fault)
	default:
		r.answer(seen, req)
	}
}

// answer answers truly.
func (r *Registry) answer(w http.ResponseWriter, req *http.Request) {
	if err := r.provide(req); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.store.ServeHTTP(w, req)
}

// spoil answers with a part of the content, or with other content.
func (r *Registry) spoil(w http.ResponseWriter, req *http.Request, fault Fault) {
	answer := httptest.NewRecorder()
	r.answer(answer, req)
	maps.Copy(w.Header(), answer.Header())

	content := answer.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	if req.Method == http.MethodHead || len(content) == 0 {
		w.Header().Set("Content-Length", answer.Header().Get("Content-Length"))
		w.WriteHeader(answer.Code)
		return
	}
	w.WriteHeader(answer.Code)
	if fault.Truncate {
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	content[len(content)-1] ^= 1
	_, _ = w.Write(content)
}

func (r *Registry) faultFor(req *http.Request) Fault {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, f := range r.faults {
		if strings.Contains(req.URL.Path, f.Path) {
			return *f
		}
	}

	return Fault{}
}

func (r *Registry) note(request Request) {
	r.mu.Lock()
	r.requests = append(r.requests, request)
	r.mu.Unlock()

	r.logger.Debug("chart registry", "method", request.Method, "path", request.Path, "status", request.Status)
}

// statusWriter remembers the status that went out.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap lets an answer be flushed.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
