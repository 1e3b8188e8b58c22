package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// Ports are chosen below those that Linux uses for outgoing connections and for listeners without a port (32768 to
// 60999, see ip(7)). Any process could take one of those after it was found free and before its program listens on it.
const (
	firstPort = 15_000
	lastPort  = 32_000
)

// FreePorts returns n loopback ports that nobody listens on. It returns none twice, until it has returned all; two
// processes start at different ones.
func FreePorts(n int) ([]int, error) { return given.take(n) }

var given = ports{next: firstPort + os.Getpid()*97%(lastPort-firstPort)}

// ports returns one port after another.
type ports struct {
	mu   sync.Mutex
	next int
}

func (p *ports) take(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := make([]int, 0, n)
	for range lastPort - firstPort {
		if len(taken) == n {
			return taken, nil
		}
		port := p.next
		if p.next++; p.next == lastPort {
			p.next = firstPort
		}
		if free(port) {
			taken = append(taken, port)
		}
	}
	return nil, fmt.Errorf("no %d free loopback ports between %d and %d", n, firstPort, lastPort)
}

// free reports whether a port can be listened on, on loopback and on all addresses.
func free(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		if err := listener.Close(); err != nil {
			return false
		}
	}
	return true
}
