package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// The ports that are given out lie below those that Linux takes for outgoing
// connections and for listeners that name none (32768 to 60999, see ip(7)). A port
// from there can be taken by anybody between the moment it was found free and the
// moment the program it is for listens on it.
const (
	firstPort = 15_000
	lastPort  = 32_000
)

// FreePorts returns n loopback ports that nobody listens on. It gives out none
// twice, until all have been; two processes begin at different ones.
func FreePorts(n int) ([]int, error) { return given.take(n) }

var given = ports{next: firstPort + os.Getpid()*97%(lastPort-firstPort)}

// ports gives out port after port.
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

// free reports whether a port can be listened on, of loopback and of all addresses.
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
