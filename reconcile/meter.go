package reconcile

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Meter holds the metrics that are plumbline's own; those by Flux's conventions
// are beside it. manifests/SPEC.md documents each. Only what names a NodeSync
// grows with their number, and it goes with the NodeSync.
//
// A nil Meter measures nothing.
type Meter struct {
	now func() time.Time

	steps    *prometheus.HistogramVec
	writes   *prometheus.CounterVec
	fetches  prometheus.Counter
	fetched  prometheus.Counter
	webhooks *prometheus.CounterVec
	// Told at each scrape, as ages grow by themselves.
	removals, stall *prometheus.Desc

	mu    sync.Mutex
	syncs map[types.NamespacedName]departures
}

// departures is what a NodeSync's removals come to.
type departures struct {
	phases map[v1alpha1.RemovalPhase]int
	// stalled is since when something waits for a person; zero where nothing does.
	stalled time.Time
}

// NewMeter makes a Meter, which is to be registered.
func NewMeter(now func() time.Time) *Meter {
	ofSync := []string{"namespace", "name"}
	return &Meter{
		now: now,
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plumbline_step_duration_seconds", Help: "How long a step of a pass took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10), // to 2 min, the default timeout of a fetch
		}, []string{"step"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plumbline_writes_total", Help: "Writes to the cluster, by the object's kind and what was done.",
		}, []string{"kind", "action"}),
		fetches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_fetches_total", Help: "Fetches that reached a Git host.",
		}),
		fetched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_fetched_bytes_total", Help: "Bytes received from Git hosts.",
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plumbline_webhook_requests_total", Help: "Requests to the webhook receiver, by the kind of Git host and the status of the answer.",
		}, []string{"host", "code"}),
		removals: prometheus.NewDesc("plumbline_removals", "Removals of a NodeSync that are recorded, by phase.", append(ofSync, "phase"), nil),
		stall:    prometheus.NewDesc("plumbline_stall_age_seconds", "How long a NodeSync's oldest stall lasts; 0 where none does.", ofSync, nil),
		syncs:    map[types.NamespacedName]departures{},
	}
}

func (m *Meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.steps, m.writes, m.fetches, m.fetched, m.webhooks}
}

// Describe is a prometheus.Collector's.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	to <- m.removals
	to <- m.stall
}

// Collect is a prometheus.Collector's.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, l := range m.syncs {
		for _, phase := range openPhases() {
			to <- prometheus.MustNewConstMetric(m.removals, prometheus.GaugeValue, float64(l.phases[phase]), name.Namespace, name.Name, string(phase))
		}
		age := time.Duration(0)
		if !l.stalled.IsZero() {
			age = max(now.Sub(l.stalled), 0)
		}
		to <- prometheus.MustNewConstMetric(m.stall, prometheus.GaugeValue, age.Seconds(), name.Namespace, name.Name)
	}
}

// openPhases are those that a recorded removal can be in.
func openPhases() []v1alpha1.RemovalPhase {
	return []v1alpha1.RemovalPhase{
		v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud, v1alpha1.RemovalFinalizing,
	}
}

// Fetched counts a fetch and what came in with it.
func (m *Meter) Fetched(bytes int64) {
	m.fetches.Inc()
	m.fetched.Add(float64(bytes))
}

// Answered counts an answer of the webhook receiver.
func (m *Meter) Answered(host string, status int) {
	m.webhooks.WithLabelValues(host, strconv.Itoa(status)).Inc()
}

// forget drops what names a NodeSync.
func (m *Meter) forget(name types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.syncs, name)
}
