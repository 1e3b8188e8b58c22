package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/tests/stories/apiproxy"
)

// What can happen to a replica, followed by its name.
const (
	gone   = "daemon away: "
	frozen = "daemon frozen: "
	cutOff = "API server away: "
)

// busy returns why a replica's process cannot be disturbed now.
func (s *soak) busy(r *replica) string {
	switch {
	case s.faults.stands(gone+r.name, frozen+r.name):
		return r.name + " is away already"
	case !r.Running():
		return r.name + " has ended by itself"
	}
	return ""
}

// unsettle starts a fault that may cost a replica its lease.
func (s *soak) unsettle(r *replica, what string, d time.Duration, end func(context.Context) error) {
	s.letStand(what+r.name, d, func(ctx context.Context) error {
		r.disturbed = time.Now()
		return end(ctx)
	})
}

// killDaemon kills a replica's process, with or without its disk.
func (s *soak) killDaemon(ctx context.Context) (string, error) {
	r, d, forgets := s.oneOf(ctx), s.lasting(), s.draw.IntN(4) == 0
	if why := s.busy(r); why != "" {
		return why, nil
	}
	if err := r.Kill(); err != nil {
		return "", err
	}
	s.unsettle(r, gone, d, r.start)
	if forgets {
		return fmt.Sprintf("%s and its cache for %s", r.name, rounded(d)), r.Forget()
	}
	return fmt.Sprintf("%s for %s", r.name, rounded(d)), nil
}

func (s *soak) stopDaemon(ctx context.Context) (string, error) {
	r, d := s.oneOf(ctx), s.lasting()
	if why := s.busy(r); why != "" {
		return why, nil
	}
	if time.Since(r.started) < settled {
		return "", nil // it may not handle signals yet
	}
	if err := r.Stop(); err != nil {
		return "", err
	}
	s.unsettle(r, gone, d, r.start)
	return fmt.Sprintf("%s for %s", r.name, rounded(d)), nil
}

func (s *soak) freezeDaemon(ctx context.Context) (string, error) {
	r, d := s.oneOf(ctx), s.lasting()
	if why := s.busy(r); why != "" {
		return why, nil
	}
	if err := r.Pause(); err != nil {
		return "", err
	}
	s.unsettle(r, frozen, d, func(context.Context) error { return r.Continue() })
	return fmt.Sprintf("%s for %s", r.name, rounded(d)), nil
}

// faultAPI makes the API server fail for one replica, or for both; Karpenter's connection is not affected.
func (s *soak) faultAPI(ctx context.Context) (string, error) {
	one, both, d := s.oneOf(ctx), s.draw.IntN(3) == 0, s.lasting()
	fault := apiproxy.Fault(s.pick([]string{string(apiproxy.Down), string(apiproxy.Hang), string(apiproxy.Slow), string(apiproxy.Busy)}))
	delay := time.Duration(1+s.draw.IntN(4)) * time.Second
	var names []string
	for _, r := range s.replicas {
		if r != one && !both || s.faults.stands(cutOff+r.name) {
			continue
		}
		r.api.Set(fault, delay, 0)
		s.unsettle(r, cutOff, d, func(context.Context) error {
			r.api.Set(apiproxy.None, 0, 0)
			return nil
		})
		names = append(names, r.name)
	}
	return fmt.Sprintf("%s of %v for %s", fault, names, rounded(d)), nil
}

// cutWatches cuts all watches of both replicas; new watches do not return the events that were missed.
func (s *soak) cutWatches(context.Context) (string, error) {
	for _, r := range s.replicas {
		r.api.Expire()
	}
	return "and they have expired", nil
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
