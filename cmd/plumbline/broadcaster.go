package main

import "k8s.io/client-go/tools/record"

const (
	// burstOfEvents is how many events of one NodeSync are sent at once, and eventsPerSecond how many
	// after them; client-go's own 25, and one in five minutes, are fewer than one commit can bring.
	burstOfEvents   = 300
	eventsPerSecond = 1
	// alike is how many events of one reason are sent one by one in ten minutes; what comes
	// after them is sent as one that counts.
	alike = 100
)

// newBroadcaster sends events to the API server.
func newBroadcaster() record.EventBroadcaster {
	return record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: burstOfEvents, QPS: eventsPerSecond, MaxEvents: alike})
}
