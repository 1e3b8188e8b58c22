package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
)

// programsOf are the programs of one peer.
type programsOf struct{ *peers.Peer }

// peerOptions returns options for a peer in the bench's cluster.
func (g *ground) peerOptions() peers.Options {
	return peers.Options{Kube: g.kube, Builder: g.builder, Dir: g.path("peers")}
}

// ends stops a started peer with the run.
func (g *ground) ends(peer *peers.Peer, err error) (programsOf, error) {
	if err == nil {
		g.onClose(peer.Stop)
	}
	return programsOf{peer}, err
}

func (p programsOf) users() []string { return p.Users }

// cpu returns the CPU time of all of them.
func (p programsOf) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, one := range p.Processes {
		used, err := watched(one.PID()).cpu()
		if err != nil {
			return 0, fmt.Errorf("%w (%w)", err, one.Err())
		}
		sum += used
	}
	return sum, nil
}

// memory returns the memory of each, in bytes.
func (p programsOf) memory() ([]int64, error) {
	var each []int64
	for _, one := range p.Processes {
		held, err := watched(one.PID()).memory()
		if err != nil {
			return nil, err
		}
		each = append(each, held.Resident)
	}
	return each, nil
}

// end stops them.
func (p programsOf) end(context.Context) error {
	p.Stop()
	return nil
}
