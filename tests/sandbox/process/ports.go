package process

import (
	"errors"
	"fmt"
	"net"
)

// FreePorts returns n loopback ports that were free a moment ago. All of them
// are held until the last is found, so that no two are the same.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	listeners := make([]net.Listener, 0, n)
	var failed error
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			failed = fmt.Errorf("find a free loopback port: %w", err)
			break
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range listeners {
		failed = errors.Join(failed, l.Close())
	}
	return ports, failed
}
