package render

// Option is a setting of Render.
type Option func(*settings)

type settings struct {
	limits Limits
	cache  *Cache
	values *Values
	inputs Inputs
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
