package charts

import (
	"net/http"
	"slices"
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

	if fault.Status != 0 {
		http.Error(seen, "a fault was injected into the sandbox's registry", fault.Status)
		return
	}

	r.store.ServeHTTP(seen, req)
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

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
