package judge

import "time"

// health is how a pod does.
type health int

const (
	healthy health = iota
	starting
	failing
	// ignored pods say nothing about the nodes.
	ignored
)

const (
	// startsWithin is how long a pod may take until its containers run: images are pulled, volumes are attached. The
	// time of its probes is added. maxStart limits both.
	startsWithin = 5 * time.Minute
	maxStart     = 30 * time.Minute
	// defaultDeadline is Kubernetes' default of progressDeadlineSeconds. A longer one was set deliberately
	// (https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds).
	defaultDeadline = 10 * time.Minute
	// errorsFor is how long an error may last that a kubelet retries: a registry that throttles, a Secret that is
	// created later.
	errorsFor = 3 * time.Minute
	// unreadyFor is how long a pod that has started may be not Ready.
	unreadyFor = time.Minute
	// restartsFail is the number of restarts since which a pod is in a crash loop. The kubelet's back-off makes that at
	// least 30 s: a pod that waits for its dependencies often restarts once or twice.
	restartsFail = 3
	// settlesIn and maxSettle limit how long a pod has to be Ready after a restart until it works again.
	settlesIn = 2 * time.Minute
	maxSettle = 10 * time.Minute
)

// health returns how a pod does, and why it fails. began is when the wave began; deadline is the progress deadline of
// the pod's Deployment, 0 if unknown.
func (p *Pod) health(began, now time.Time, deadline time.Duration) (health, string) {
	switch {
	case p.isIgnored(began):
		return ignored, ""
	case p.Failed:
		return failing, p.Cause
	case p.Succeeded:
		return healthy, ""
	case !p.OOMKilled.IsZero() && !p.OOMKilled.Before(began):
		return failing, "OOMKilled"
	case p.Error && !now.Before(p.Created.Add(errorsFor)):
		return failing, p.Cause
	case p.Error:
		return starting, ""
	case p.Restarts > 0 && !p.Crashed.Before(began) && !p.settled(now):
		return p.restarted(now, deadline)
	case p.Ready:
		return healthy, ""
	case !p.New && p.Restarts >= restartsFail: // it waits for the kubelet's back-off since before the wave
		return failing, p.Cause
	}
	return p.unready(now, deadline)
}

// isIgnored reports whether a pod says nothing about the nodes: it was stopped, or failed before the wave.
func (p *Pod) isIgnored(began time.Time) bool {
	return p.Stopped || p.New && p.brokenBefore(began) || p.Failed && p.Ended.Before(began)
}

// unready returns the health of a pod that is not Ready and has no error.
func (p *Pod) unready(now time.Time, deadline time.Duration) (health, string) {
	if now.Before(p.Created.Add(p.starts(deadline))) || now.Before(p.Changed.Add(unreadyFor)) {
		return starting, ""
	}
	return failing, p.Cause
}

// fails reports whether a pod that has not ended fails, whenever that began. A crash is forgotten once it works again: as
// settled, and after maxSettle if it only was not Ready in between.
func (p *Pod) fails(now time.Time, deadline time.Duration) bool {
	recent := now.Add(-maxSettle)
	switch {
	case p.Error:
		return true
	case p.Crashed.Before(recent): // the kubelet's back-off is at most 5 minutes
	case p.settled(now):
		return false
	case !p.OOMKilled.Before(recent):
		return true
	case p.Restarts > 0:
		how, _ := p.restarted(now, deadline)
		return how == failing
	}
	if p.Ready {
		return false
	}
	how, _ := p.unready(now, deadline)
	return how == failing
}

// hasEnded reports whether a pod is in a terminal phase.
func (p *Pod) hasEnded() bool { return p.Failed || p.Succeeded }

// isLeftover reports whether its controller has replaced a pod: it failed, although its containers are always restarted, or
// the kubelet has evicted it.
func (p *Pod) isLeftover() bool { return p.Failed && (!p.Task || p.Cause == evicted) }

// brokenBefore reports whether a pod is older than the wave, and has not been Ready since.
func (p *Pod) brokenBefore(began time.Time) bool {
	return p.Created.Before(began) && !p.Ready && !p.Succeeded && p.Changed.Before(began)
}

// restarted returns the health of a pod that has restarted and not settled since.
func (p *Pod) restarted(now time.Time, deadline time.Duration) (health, string) {
	if p.Restarts >= restartsFail || !p.Ready && !now.Before(p.Created.Add(p.starts(deadline))) {
		return failing, p.Cause
	}
	return starting, ""
}

// settled reports whether a pod has been Ready since its last restart for longer than it ran before, twice over.
func (p *Pod) settled(now time.Time) bool {
	return p.Ready && now.Sub(p.Changed) >= min(max(settlesIn, 2*p.Ran), maxSettle)
}

// starts returns how long a pod may take until it is Ready.
func (p *Pod) starts(deadline time.Duration) time.Duration {
	allowed := startsWithin + p.Probes
	if deadline > defaultDeadline {
		allowed = max(allowed, deadline)
	}
	return min(allowed, maxStart)
}
