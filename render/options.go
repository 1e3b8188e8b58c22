package render

import (
	"time"

	"github.com/plumbline-dev/plumbline/confine"
)

// Option is a setting of Render.
type Option func(*settings)

type settings struct {
	limits Limits
	cache  *Cache
	values *Values
	inputs Inputs
	runner *confine.Runner
}

// mostBuilding is the processor time that all kustomizations of one render may take.
const mostBuilding = time.Minute

// confined is what builds the kustomizations of one render; nil for this process.
func (s settings) confined() *confine.Runner {
	if s.runner == nil {
		return nil
	}
	return s.runner.Within(mostBuilding)
}

// WithConfinement has kustomizations built in child processes. Default: in this one,
// which a kustomization of a few kilobytes can bring down.
func WithConfinement(runner *confine.Runner) Option {
	return func(s *settings) { s.runner = runner }
}

// WithLimits sets other limits than DefaultLimits.
func WithLimits(limits Limits) Option {
	return func(s *settings) { s.limits = limits }
}

// WithCache takes what has not changed since the last render from a Cache, and
// leaves in it what the next one may need.
func WithCache(cache *Cache) Option {
	return func(s *settings) { s.cache = cache }
}

// WithValues has the objects share what they have in common, among each other and
// with whatever else is held there.
func WithValues(values *Values) Option {
	return func(s *settings) { s.values = values }
}

// WithInputs adds what was read, beside the render, to make what it renders with:
// the files of the charts. They count as the Set's own.
func WithInputs(inputs Inputs) Option {
	return func(s *settings) { s.inputs = inputs }
}
