package karpenter

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// probeEvery is shorter than a kubelet's period, and there is no initial delay: the process itself reports when it
	// is ready.
	probeEvery   = 200 * time.Millisecond
	probeTimeout = 5 * time.Second
	// probeFailures in a row make a ready pod unready.
	probeFailures = 3
)

// probe checks whether a program is ready.
type probe struct {
	client   *http.Client
	url      string
	ready    bool
	failures int
	err      error // of the last probe, nil if it succeeded

	complainAt time.Time     // not before this time
	period     time.Duration // of complaints
}

func newProbe(pod *corev1.Pod, health string, now time.Time) *probe {
	path, delay, period := "/readyz", time.Duration(0), 10*time.Second // Kubernetes' default
	if p := pod.Spec.Containers[0].ReadinessProbe; p != nil {
		delay = time.Duration(p.InitialDelaySeconds) * time.Second
		if p.HTTPGet != nil {
			path = p.HTTPGet.Path
		}
		if p.PeriodSeconds > 0 {
			period = time.Duration(p.PeriodSeconds) * time.Second
		}
	}
	return &probe{
		client:     &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}},
		url:        health + path,
		complainAt: now.Add(delay),
		period:     period,
	}
}

// ask reports whether the program is ready, and whether that has changed.
func (p *probe) ask(ctx context.Context) (ready, changed bool) {
	if p.err = p.try(ctx); p.err == nil {
		changed = !p.ready
		p.ready, p.failures = true, 0
		return true, changed
	}
	p.failures++
	if p.ready && p.failures >= probeFailures {
		p.ready = false
		return false, true
	}
	return p.ready, false
}

// complaint returns a kubelet's event for the last failure, no sooner and no more often than the pod's probe is due.
func (p *probe) complaint(now time.Time) string {
	if p.err == nil || now.Before(p.complainAt) {
		return ""
	}
	p.complainAt = now.Add(p.period)
	return "Readiness probe failed: " + p.err.Error()
}

func (p *probe) try(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}
