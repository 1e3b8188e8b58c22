package webhook

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections stay in this process, so that time can be
// made to pass.
type pipes struct{ waiting chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	connection, ok := <-p.waiting
	if !ok {
		return nil, net.ErrClosed
	}
	return connection, nil
}

func (p pipes) Close() error   { close(p.waiting); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.waiting <- theirs
	return ours
}

// slowly sends a byte each second, and says how long the connection was held.
func slowly(connection net.Conn, text string, held chan<- time.Duration) {
	began := time.Now()
	gaveUp := make(chan struct{})
	go func() {
		defer close(gaveUp)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for i := range len(text) {
			<-every.C
			if _, err := connection.Write([]byte{text[i]}); err != nil {
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, connection) // until it is closed, however
	lasted := time.Since(began)
	<-gaveUp
	held <- lasted
}

// asked sends a whole request and returns the status of its answer.
func asked(t *testing.T, connection net.Conn) int {
	t.Helper()
	go func() {
		_, _ = io.WriteString(connection, "POST /hook HTTP/1.1\r\nHost: plumbline\r\nContent-Length: 2\r\n\r\n{}")
	}()
	answered, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answered.Body.Close()
	return answered.StatusCode
}

// TestSlowClients: one that sends a byte a second, in its headers or in its body,
// is cut off in time; the others are served meanwhile, or, where there are as
// many of them as there may be connections, right after.
func TestSlowClients(t *testing.T) {
	cases := map[string]struct {
		clients int
		text    string
		within  time.Duration // an honest request is answered
	}{
		"slow headers":   {maxConnections - 1, "POST /hook HTTP/1.1\r\nHost: plumbline\r\n" + strings.Repeat("X-Padding: x\r\n", 100), 0},
		"slow body":      {maxConnections - 1, "POST /hook HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + strings.Repeat("x", 500), 0},
		"nothing at all": {maxConnections - 1, "", 0},
		"all of them":    {maxConnections, "POST /hook HTTP/1.1\r\nHost: plumbline\r\n" + strings.Repeat("X-Padding: x\r\n", 100), readTimeout + time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := pipes{make(chan net.Conn, maxConnections+1)}
				server := serving(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						w.WriteHeader(http.StatusBadRequest)
					}
				}))
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- server.Start(ctx) }()
				held := make(chan time.Duration, c.clients)
				for range c.clients {
					go slowly(listener.dial(), c.text, held)
				}
				synctest.Wait() // all of them have a connection
				began := time.Now()
				if code := asked(t, listener.dial()); code != http.StatusOK {
					t.Errorf("an honest request is answered by %d", code)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("an honest request is answered after %s, want %s", took, c.within)
				}
				for range c.clients {
					if lasted := <-held; lasted > readTimeout+time.Second {
						t.Errorf("a slow client holds its connection for %s", lasted)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
