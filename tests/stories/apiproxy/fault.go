package apiproxy

import (
	"encoding/json"
	"net"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is what the proxy does to requests.
type Fault string

// The values of Fault.
const (
	// None forwards every request.
	None Fault = "up"
	// Down refuses connections and cuts open ones.
	Down Fault = "down"
	// Slow delays each request.
	Slow Fault = "slow"
	// Hang does not respond until the fault ends.
	Hang Fault = "hang"
	// Busy answers 429 and asks for a retry in a second.
	Busy Fault = "429"
)

// Set starts a fault, replacing any other. The fault ends after lasts, if that is positive. delay is the delay of Slow.
func (p *Proxy) Set(fault Fault, delay, lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	p.fault, p.delay = fault, delay
	if fault == None {
		return
	}
	p.healed = make(chan struct{})
	if lasts > 0 {
		mine := p.healed
		p.heals = time.AfterFunc(lasts, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.healed == mine {
				p.end()
			}
		})
	}
	if fault == Down {
		for c := range p.open {
			_ = c.Close() // it may be closed already
		}
	}
}

// end ends the fault. Callers hold the lock.
func (p *Proxy) end() {
	if p.heals != nil {
		p.heals.Stop()
	}
	if p.healed != nil {
		close(p.healed)
	}
	p.fault, p.heals, p.healed = None, nil, nil
}

// Expire cuts every watch, and answers the next one on each path with 410: only a list returns what has happened since.
func (p *Proxy) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, cut := range p.watches {
		p.expired[r.URL.Path] = true
		cut()
	}
}

// afflict applies the fault to a request, and reports whether to forward it.
func (p *Proxy) afflict(w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	fault, delay, healed := p.fault, p.delay, p.healed
	p.mu.Unlock()
	switch fault {
	case Busy:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
		return false
	case Slow:
		return waited(r, time.After(delay))
	case Hang:
		return waited(r, healed)
	case None, Down:
	}
	return true
}

// waited waits; it reports false if the client disconnects first.
func waited[T any](r *http.Request, until <-chan T) bool {
	select {
	case <-until:
		return true
	case <-r.Context().Done():
		return false
	}
}

// answer responds with a Status like the API server's.
func answer(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	if err != nil {
		panic(err) // these values can always be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
}

// gate accepts no connection while the API server is down.
type gate struct {
	net.Listener
	proxy *Proxy
}

// Accept closes the connections that it must not accept.
func (g gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.proxy.mu.Lock()
		down := g.proxy.fault == Down
		g.proxy.mu.Unlock()
		if !down {
			return c, nil
		}
		_ = c.Close()
	}
}
