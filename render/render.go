package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Render makes the Set of a path. The Validator may be nil: then nothing is
// checked against a schema, and no defaults are known. Errors: Errors with all
// that is wrong, *MissingError, *EmptyError, or that of the context.
func Render(ctx context.Context, snap Snapshot, name string, k *Karpenter, v Validator, options ...Option) (*Set, error) {
	s := settings{limits: DefaultLimits()}
	for _, option := range options {
		option(&s)
	}
	folder, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	r := &run{
		snap:   snap,
		tree:   newTree(snap.FS, &allowance{limits: s.limits}),
		maker:  &maker{variables: k.variables(), validator: v},
		before: s.cache.open(k.variables(), v),
		after:  map[source]kept{},
	}
	sources, err := r.sources(folder, k.Nodes)
	if err != nil {
		return nil, limited(folder, err)
	}
	for _, one := range sources {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		if err := r.take(ctx, one); err != nil {
			return nil, limited(one.name, err)
		}
	}
	s.cache.close(k.variables(), v, r.after)
	set, err := r.conclude(name)
	if err != nil {
		return nil, err
	}
	set.Karpenter = *k
	return set, nil
}

// run is one render.
type run struct {
	snap          Snapshot
	tree          *tree
	maker         *maker
	before, after map[source]kept

	objects []Object
	errs    Errors
	// warnings are the Set's.
	warnings []string
}

// sources lists what objects come from. The folder itself and its plumbline.yaml
// are inputs, too.
func (r *run) sources(folder string, nodes []string) ([]source, error) {
	file := path.Join(folder, FileName)
	if _, err := r.tree.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
		return nil, &MissingError{Path: folder, File: file}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	w := &walk{tree: r.tree, root: folder, taken: map[source]bool{}}
	for _, entry := range nodes {
		if err := w.entry(entry); err != nil {
			return nil, err
		}
	}
	r.errs = append(r.errs, w.errs...)
	r.warnings = w.warnings
	return w.sources, nil
}

// take makes the objects of one source, or takes them from the last render.
func (r *run) take(ctx context.Context, one source) error {
	if known, ok := r.before[one]; ok {
		unchanged, err := known.inputs.Unchanged(r.snap)
		if err != nil {
			return err
		}
		if unchanged {
			r.keep(one, known)
			return nil
		}
	}
	files := r.tree.branch()
	drafts, errs, err := readSource(files, one)
	if err != nil {
		return err
	}
	objects := make([]Object, 0, len(drafts))
	for _, d := range drafts {
		object, problems := r.maker.object(ctx, d)
		errs = append(errs, problems...)
		objects = append(objects, object)
	}
	if len(errs) > 0 {
		r.errs = append(r.errs, errs...)
		return nil
	}
	r.keep(one, kept{inputs: files.inputs, objects: objects})
	return nil
}

func (r *run) keep(one source, what kept) {
	r.after[one] = what
	r.tree.inputs.add(what.inputs)
	r.objects = append(r.objects, copies(what.objects)...)
}

// conclude puts the Set together, or all errors.
func (r *run) conclude(name string) (*Set, error) {
	inOrder(r.objects)
	errs := append(r.errs, duplicates(r.objects)...)
	switch {
	case len(errs) > 0:
		return nil, errs.sorted()
	case len(r.objects) == 0:
		return nil, &EmptyError{Path: name}
	default:
		return &Set{Revision: r.snap.Revision, Commit: r.snap.Commit, Objects: r.objects, Inputs: r.tree.inputs.clone(), Warnings: r.warnings}, nil
	}
}

// limited turns an error of the limits into one with a place.
func limited(name string, err error) error {
	if errors.Is(err, errLimit) {
		return Errors{{File: name, Message: err.Error()}}
	}
	return err
}
