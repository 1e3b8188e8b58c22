package awssim

import "sync"

// EventKind is the kind of an event of an instance.
type EventKind string

// The kinds of events, in the order of an instance's lifecycle.
const (
	Launched     EventKind = "Launched"     // exists, pending
	Running      EventKind = "Running"      // pending is over
	Stopping     EventKind = "Stopping"     // is stopping; Running follows again when it is started
	ShuttingDown EventKind = "ShuttingDown" // is terminating
	Terminated   EventKind = "Terminated"   // is gone; its description remains for a while
)

// Event is a change of an instance's state, with the instance as it was right
// after it.
type Event struct {
	Kind     EventKind
	Instance Instance
}

// dispatcher sends events to subscribers in order, from one goroutine that lives only while there are events to send.
type dispatcher struct {
	mu          sync.Mutex
	subscribers []func(Event)
	queue       []Event
	running     bool
}

func (d *dispatcher) subscribe(f func(Event)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, f)
}

// publish never blocks and never calls a subscriber itself.
func (d *dispatcher) publish(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, e)
	if !d.running {
		d.running = true
		go d.drain()
	}
}

func (d *dispatcher) drain() {
	for {
		e, subscribers, ok := d.next()
		if !ok {
			return
		}
		for _, f := range subscribers {
			f(e)
		}
	}
}

func (d *dispatcher) next() (Event, []func(Event), bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		d.running = false
		return Event{}, nil, false
	}
	e := d.queue[0]
	d.queue = d.queue[1:]
	return e, d.subscribers[:len(d.subscribers):len(d.subscribers)], true
}
