package process

import (
	"net"
	"strconv"
	"testing"
)

// Before its program listens, a port is reserved: FreePorts returns it to no other caller, and the kernel does not
// assign it to a listener without a port.
func TestPortsAreGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		found, err := FreePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range found {
			if seen[port] {
				t.Fatalf("port %d was given twice", port)
			}
			if port < firstPort || port >= lastPort {
				t.Fatalf("port %d is not between %d and %d", port, firstPort, lastPort)
			}
			seen[port] = true
		}
	}
}

func TestTakenPortsArePassedOver(t *testing.T) {
	p := ports{next: firstPort}
	found, err := p.take(1)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(found[0])))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p.next = found[0]
	again, err := p.take(1)
	if err != nil {
		t.Fatal(err)
	}
	if again[0] == found[0] {
		t.Errorf("port %d is listened on and was given out", found[0])
	}
}
