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
	// None passes every request on.
	None Fault = "up"
	// Down refuses connections and cuts those that there are.
	Down Fault = "down"
	// Slow holds each request back for a while.
	Slow Fault = "slow"
	// Hang answers nothing until it is over.
	Hang Fault = "hang"
	// Busy answers 429 and asks to be asked again in a second.
	Busy Fault = "429"
)

// Set begins a fault, in the place of another. It is over after a while, where
// that is more than nothing. delay is how slow Slow is.
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
			_ = c.Close() // it may be closed by now
		}
	}
}

// end ends the fault. The lock is held.
func (p *Proxy) end() {
	if p.heals != nil {
		p.heals.Stop()
	}
	if p.healed != nil {
		close(p.healed)
	}
	p.fault, p.heals, p.healed = None, nil, nil
}

// Expire cuts every watch, and answers the next one on each path with 410: what
// has happened since is known to a list alone.
func (p *Proxy) Expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, cut := range p.watches {
		p.expired[r.URL.Path] = true
		cut()
	}
}

// afflict does to a request what the fault says, and reports whether it goes on.
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

// waited waits, unless whoever asks goes away.
func waited[T any](r *http.Request, until <-chan T) bool {
	select {
	case <-until:
		return true
	case <-r.Context().Done():
		return false
	}
}

// answer is a Status, as the API server would give it.
func answer(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	if err != nil {
		panic(err) // of values that can always be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // whoever asked may be gone
}

// gate lets no connection in while the API server is down.
type gate struct {
	net.Listener
	proxy *Proxy
}

// Accept closes what it must not let in.
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
