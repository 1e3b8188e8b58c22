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

// Fault makes some requests fail while it is set.
type Fault struct {
	// Path is a part of the request's path, such as "/karpenter-crd/manifests/". If empty, every request matches.
	Path string
	// Delay delays the response; it ends if the client disconnects.
	Delay time.Duration
	// Status is returned instead of the chart. If zero, the chart is returned.
	Status int
	// Away closes the connection before a response, like a proxy whose registry is unavailable.
	Away bool
	// Truncate closes the connection in the middle of the response.
	Truncate bool
	// Corrupt changes the last byte of the response.
	Corrupt bool
}

// Request is a request to the registry.
type Request struct {
	Method, Path string
	// Status is the status of the response.
	Status int
}

// Inject makes requests fail from now on, until the returned function is called. The first fault that matches a request
// applies.
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

// Requests returns all requests so far, in the order of their responses.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.requests)
}

// ServeHTTP responds as an OCI registry, after applying faults.
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

// answer responds without faults.
func (r *Registry) answer(w http.ResponseWriter, req *http.Request) {
	if err := r.provide(req); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.store.ServeHTTP(w, req)
}

// spoil responds with a part of the content, or with other content.
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

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap lets a response be flushed.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
