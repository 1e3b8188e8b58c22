package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/internal/workers"
)

// Render builds the Set of a path. If the Validator is nil, nothing is validated against a schema, and no defaults are
// set. Errors: Errors with everything that is wrong, *MissingError, *EmptyError, or that of the context.
func Render(ctx context.Context, snap Snapshot, name string, k *Karpenter, v Validator, options ...Option) (*Set, error) {
	s := settings{limits: DefaultLimits()}
	for _, option := range options {
		option(&s)
	}
	folder, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	before, listings := s.cache.open(k.fingerprint(), v)
	of := wanted{name: name, charts: k.charts(folder), nodes: slices.Clone(k.Nodes), files: k.valuesFiles(folder)}
	r := s.run(snap, of, k, v, before)
	r.listings = listings
	if last, taken := r.deriveFromLast(ctx, s.cache.lastOf(of, before)); last != nil {
		last.finish(k, s.inputs, snap)
		s.cache.keep(last, taken)
		return last.set, nil
	}
	r = s.run(snap, of, k, v, before)
	w := &walk{
		tree: r.tree, root: folder, charts: of.charts, values: of.files, taken: make(map[source]bool, len(before)), walked: map[string]bool{},
		snap: snap, before: listings, after: map[string]listing{},
	}
	r.listings = w.after
	sources, err := r.sources(ctx, w, k.Nodes)
	if err != nil {
		return nil, limited(folder, err)
	}
	r.warnings = append(r.warnings, w.warnings...)
	walked := r.tree.inputs.clone()
	if err := r.renderSources(ctx, sources); err != nil {
		return nil, limited(folder, err)
	}
	s.cache.close(k.fingerprint(), v, r.after, w.after)
	set, err := r.conclude(name)
	if err != nil {
		return nil, err
	}
	last := r.rendition(of, walked, set)
	last.unread = w.warnings
	last.finish(k, s.inputs, snap)
	s.cache.keep(last, nil)
	return set, nil
}

// run prepares a render.
func (s settings) run(snap Snapshot, of wanted, k *Karpenter, v Validator, before map[source]kept) *run {
	left := &allowance{limits: s.limits}
	return &run{
		name:      of.name,
		snap:      snap,
		tree:      newTree(snap.FS, left),
		karpenter: k,
		maker:     &maker{variables: k.variables(), validator: v, left: left},
		before:    before,
		failed:    s.cache.failures(),
		runner:    s.confined(),
		after:     make(map[source]kept, len(before)),
	}
}

// run is one render.
type run struct {
	// name of the path, for messages.
	name          string
	snap          Snapshot
	tree          *tree
	maker         *maker
	karpenter     *Karpenter
	before, after map[source]kept
	// failed are the sources that exceeded the limits of a child process.
	failed *failures
	// runner builds kustomizations.
	runner *confine.Runner
	// listings are the kustomizations, by folder.
	listings map[string]listing

	objects []Object
	remarks
	errs Errors
}

// sources lists what objects come from. The folder itself and its plumbline.yaml are inputs, too.
func (r *run) sources(ctx context.Context, w *walk, nodes []string) ([]source, error) {
	file := path.Join(w.root, FileName)
	if _, err := r.tree.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
		return nil, &MissingError{Path: w.root, File: file}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, entry := range nodes {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list %s: %w", w.root, err)
		}
		if err := w.entry(entry); err != nil {
			return nil, err
		}
	}
	r.errs = append(r.errs, w.errs...)
	return w.sources, nil
}

// renderSources renders the sources, as many at a time as there are processors: most of a render is validating objects
// against their schema.
func (r *run) renderSources(ctx context.Context, sources []source) error {
	taken, errs := make([]kept, len(sources)), make([]Errors, len(sources))
	var unknown []int
	for i, one := range sources {
		if known, ok := r.known(one); ok {
			taken[i], errs[i] = known, r.count(one, known.objects)
		} else {
			unknown = append(unknown, i)
		}
	}
	together, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := workers.Each(runtime.GOMAXPROCS(0), len(unknown), func(n int) (err error) {
		i := unknown[n]
		if err := together.Err(); err != nil {
			return fmt.Errorf("render %s: %w", sources[i].name, err)
		}
		if taken[i], errs[i], err = r.renderSource(together, sources[i]); err != nil {
			stop(err)
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		return context.Cause(together) // the others may report first that they were stopped because of it
	case err != nil:
		return err
	}
	r.objects = slices.Grow(r.objects, len(sources))
	for i, one := range sources {
		r.errs = append(r.errs, errs[i]...)
		if len(errs[i]) == 0 {
			r.keep(one, taken[i])
		}
	}
	return nil
}

// known returns the cached result of a source if the file system knows without reading that nothing has changed: this
// check costs less than passing the source to a worker.
func (r *run) known(one source) (kept, bool) {
	if _, ok := r.snap.FS.(Identified); !ok {
		return kept{}, false
	}
	known, ok := r.before[one]
	if !ok {
		return kept{}, false
	}
	unchanged, err := known.inputs.Unchanged(r.snap)
	return known, unchanged && err == nil // take reports the error
}

// renderSource renders one source, or returns it from the cache.
func (r *run) renderSource(ctx context.Context, one source) (kept, Errors, error) {
	if known, ok := r.before[one]; ok {
		unchanged, err := known.inputs.Unchanged(r.snap)
		if err != nil || unchanged {
			return known, r.count(one, known.objects), err
		}
	}
	files := r.tree.branch()
	if err := r.failed.find(one, r.snap); err != nil {
		return kept{}, nil, err
	}
	drafts, said, errs, err := r.read(ctx, files, one)
	if err != nil {
		return kept{}, nil, r.failed.note(one, files.inputs, err)
	}
	now, before := kept{inputs: files.inputs, remarks: said}, r.before[one].byContent()
	for _, d := range drafts {
		if err := ctx.Err(); err != nil {
			return kept{}, nil, fmt.Errorf("render %s: %w", one.name, err)
		}
		began := time.Now()
		object, problems := r.make(ctx, d, before)
		if !r.maker.left.spend(time.Since(began)) {
			return kept{}, nil, &SlowError{Path: r.name, Limit: r.maker.left.limits.Work}
		}
		errs = append(errs, problems...)
		now.objects = append(now.objects, object)
	}
	return now, errs, nil
}

// make builds the object of a draft, unless its source had the same draft before: in a changed file or build most
// drafts have not changed.
func (r *run) make(ctx context.Context, d draft, before map[content]Object) (keptObject, Errors) {
	content := d.content()
	if known, ok := before[content]; ok {
		known.Origin = d.origin
		taken := keptObject{Object: known, content: content}
		return taken, r.count(source{name: d.origin.File}, []keptObject{taken})
	}
	object, problems := r.maker.object(ctx, d)
	return keptObject{Object: object, content: content}, problems
}

// count counts cached objects against the limits of this render.
func (r *run) count(one source, objects []keptObject) Errors {
	if err := r.maker.left.countCached(objects); err != nil {
		return Errors{{File: one.name, Message: err.Error()}}
	}
	return nil
}

func (r *run) keep(one source, what kept) {
	r.after[one] = what
	r.tree.inputs.add(what.inputs)
	r.add(what.remarks)
	for _, one := range what.objects {
		r.objects = append(r.objects, one.Object)
	}
}

// conclude assembles the Set, or returns all errors.
func (r *run) conclude(name string) (*Set, error) {
	inOrder(r.objects)
	errs := append(append(r.errs, r.tooMany()...), duplicates(r.objects)...)
	errs = append(errs, unlaunchable(r.objects)...)
	switch {
	case len(errs) > 0:
		return nil, errs.sorted()
	case len(r.objects) == 0:
		return nil, &EmptyError{Path: name}
	default:
		return &Set{
			Revision: r.snap.Revision, Commit: r.snap.Commit, Objects: r.objects, Inputs: r.tree.inputs,
			Warnings: warningsOn(r.remarks, r.objects),
		}, nil
	}
}

// tooMany checks the limits of a Set that was derived from the last one, where reused objects were not counted.
func (r *run) tooMany() Errors {
	limits, text := r.maker.left.limits, 0
	for i := range r.objects {
		text += r.objects[i].Text
	}
	if err := cmp.Or(limits.checkObjects(len(r.objects)), limits.checkText(text)); err != nil {
		return Errors{{File: r.name, Message: err.Error()}}
	}
	return nil
}

// maxWarned limits the warnings of a Set: a commit can have any number.
const maxWarned = 5

// warningsOn returns the warnings about the first few files and objects, and the number of the others.
func warningsOn(files remarks, objects []Object) []string {
	all := slices.Sorted(slices.Values(files.warnings))
	for i := range objects {
		if objects[i].Warning != "" {
			all = append(all, fmt.Sprintf("%s: %s", objects[i].Origin, objects[i].Warning))
		}
	}
	warnings := all[:min(len(all), maxWarned)]
	if more := len(all) - len(warnings); more > 0 {
		warnings = append(warnings, shortlist.More("", more)+" warnings like these")
	}
	if ignored := files.sentence(); ignored != "" {
		warnings = append(slices.Clone(warnings), ignored)
	}
	return warnings
}

// limited adds a file to an error of the limits.
func limited(name string, err error) error {
	if errors.Is(err, errLimit) {
		return Errors{{File: name, Message: err.Error()}}
	}
	return err
}

// Option is a setting of Render.
type Option func(*settings)

type settings struct {
	limits Limits
	cache  *Cache
	inputs Inputs
	runner *confine.Runner
}

// maxBuilding limits the processor time of all kustomizations of one render.
const maxBuilding = time.Minute

// confined returns the Runner for the kustomizations of one render; if nil, they are built in this process.
func (s settings) confined() *confine.Runner {
	if s.runner == nil {
		return nil
	}
	return s.runner.Within(maxBuilding)
}

// WithConfinement builds kustomizations in child processes. Default: in this process, which a kustomization of a few
// kilobytes can crash.
func WithConfinement(runner *confine.Runner) Option {
	return func(s *settings) { s.runner = runner }
}

// WithLimits replaces DefaultLimits.
func WithLimits(limits Limits) Option {
	return func(s *settings) { s.limits = limits }
}

// WithCache reuses from a Cache what has not changed since the last render, and stores what the next one may need.
func WithCache(cache *Cache) Option {
	return func(s *settings) { s.cache = cache }
}

// WithInputs adds inputs that were read outside of the render and affect it: the files of the charts. They become
// inputs of the Set.
func WithInputs(inputs Inputs) Option {
	return func(s *settings) { s.inputs = inputs }
}
