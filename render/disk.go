package render

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
	"unique"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/internal/wholefile"
)

// Disk keeps Caches in files of a folder, so that the process after this one neither
// parses nor validates what has not changed since. A file is believed by the program, the schema
// and the configuration that it was written for, and each source in it by the identities of its
// inputs. One that cannot be read, or is not whole, counts as none. Nil keeps nothing.
type Disk struct {
	// Dir is the folder, which is made.
	Dir string
	// Program is equal for processes that render the same.
	Program string
	// MaxBytes is how large a file may be, MostKept where it is 0. What a commit makes larger is
	// rendered by each process.
	MaxBytes int

	mu    sync.Mutex
	open  map[string]*opened
	ahead map[string]func() (*file, error)
}

// opened is a Cache that is kept, as long as it is in use.
type opened struct {
	cache weak.Pointer[Cache]
	// schema is the identity of the validator.
	schema    string
	validator Validator
	// saved is of the Cache's changes the last that its file has.
	saved int
}

// Open has a Cache kept under a name from now on, for a validator of a schema. The first
// time it fills the Cache with what its file has, whose objects share Values.
func (d *Disk) Open(name string, cache *Cache, karpenter *Karpenter, schema string, v Validator, values *Values) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.open[name]; known != nil && known.cache.Value() == cache {
		known.schema, known.validator = schema, v
		return nil
	}
	if d.open == nil {
		d.open = map[string]*opened{}
	}
	d.open[name] = &opened{cache: weak.Make(cache), schema: schema, validator: v}
	of := d.head(schema, karpenter.fingerprint())
	read := d.reading(name, values)
	delete(d.ahead, name)
	has, err := read()
	if err != nil || has == nil || has.of != of {
		return err
	}
	d.open[name].saved = cache.restore(of.Karpenter, v, has.sources)
	return nil
}

// Prefetch begins to read what is kept under a name, for an Open that follows soon.
func (d *Disk) Prefetch(name string, values *Values) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[name] != nil || d.ahead[name] != nil {
		return
	}
	if d.ahead == nil {
		d.ahead = map[string]func() (*file, error){}
	}
	d.ahead[name] = d.reading(name, values)
	go func(read func() (*file, error)) { _, _ = read() }(d.ahead[name]) // Open returns the error
}

// reading reads once what is kept under a name: the one that has begun, if there is one. d.mu is held.
func (d *Disk) reading(name string, values *Values) func() (*file, error) {
	if begun := d.ahead[name]; begun != nil {
		return begun
	}
	return sync.OnceValues(func() (*file, error) { return d.read(name, values) })
}

// Save writes the Caches that have changed, and removes files that nobody has wanted for long. It is
// called by one goroutine at a time.
func (d *Disk) Save() error {
	if d == nil {
		return nil
	}
	var errs []error
	for name, now := range d.changed() {
		if err := d.write(name, now.of, now.sources); err != nil && !errors.Is(err, errTooMuch) {
			errs = append(errs, err)
			continue
		}
		d.mu.Lock()
		now.from.saved = now.changes
		d.mu.Unlock()
	}
	return errors.Join(append(errs, d.sweep())...)
}

// unsaved is what a file lacks of a Cache.
type unsaved struct {
	from    *opened
	of      head
	sources map[source]kept
	changes int
}

// changed are the Caches that differ from their files. Those in use no more are dropped.
func (d *Disk) changed() map[string]unsaved {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.ahead) // nobody has opened it in all that time
	differ := map[string]unsaved{}
	for name, one := range d.open {
		cache := one.cache.Value()
		if cache == nil {
			delete(d.open, name)
			continue
		}
		if karpenter, sources, changes := cache.known(one.validator); sources != nil && changes != one.saved {
			differ[name] = unsaved{one, d.head(one.schema, karpenter), sources, changes}
		}
	}
	return differ
}

// forgotten is how long a file is left that nobody uses: a NodeSync may fail, or be suspended, for days.
const forgotten = 7 * 24 * time.Hour

// sweep removes the files of what is in use no more, and those that a write has left unfinished.
func (d *Disk) sweep() error {
	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		return ignoreNotExist(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	inUse := map[string]bool{}
	for name := range d.open {
		inUse[filepath.Base(d.file(name))] = true
	}
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		if inUse[entry.Name()] || err != nil || time.Since(info.ModTime()) < forgotten {
			continue
		}
		errs = append(errs, ignoreNotExist(os.Remove(filepath.Join(d.Dir, entry.Name()))))
	}
	return errors.Join(errs...)
}

// file is that of a name, which may be longer than that of a file.
func (d *Disk) file(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(d.Dir, hex.EncodeToString(sum[:])+".jsonl")
}

// head is what a file is for, the first of its lines.
type head struct{ Program, Schema, Karpenter string }

func (d *Disk) head(schema, karpenter string) head { return head{d.Program, schema, karpenter} }

// MostKept is ten times the file of 2,000 definitions, in bytes.
const MostKept = 64 << 20

var errTooMuch = errors.New("more than is kept")

// bounded takes so much, and nothing after that.
type bounded struct {
	io.Writer
	left int
}

func (b *bounded) Write(text []byte) (int, error) {
	if b.left -= len(text); b.left < 0 {
		return 0, errTooMuch
	}
	return b.Writer.Write(text)
}

// whole is the last line of a file that is.
const whole = "end"

// file is what one has.
type file struct {
	of      head
	sources map[source]kept
}

// read returns what the file of a name has; nil if there is none, or it is of another program or not whole.
func (d *Disk) read(name string, values *Values) (*file, error) {
	text, err := os.Open(d.file(name))
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	defer func() { _ = text.Close() }() // nothing was written
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, cmp.Or(d.MaxBytes, MostKept))
	has := &file{sources: map[source]kept{}}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &has.of) != nil || has.of.Program != d.Program {
		return nil, lines.Err()
	}
	once := interned{}
	for lines.Scan() {
		if string(lines.Bytes()) == whole {
			return has, nil
		}
		one, what, err := readSource(lines.Bytes(), once, values)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", text.Name(), err)
		}
		has.sources[one] = what
	}
	return nil, lines.Err()
}

// write writes a file in the place of the one before.
func (d *Disk) write(name string, of head, sources map[source]kept) error {
	return wholefile.Write(d.file(name), 0o700, func(file io.Writer) error {
		text := bufio.NewWriter(&bounded{file, cmp.Or(d.MaxBytes, MostKept)})
		lines := json.NewEncoder(text)
		if err := lines.Encode(of); err != nil {
			return err
		}
		for one, what := range sources {
			line, known := stored(one, what)
			if !known {
				continue // the next process renders it
			}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		if _, err := text.WriteString(whole + "\n"); err != nil {
			return err
		}
		return text.Flush()
	})
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// more is what a map has more than another one: the entries that it adds, and those that are another
// value, of maps in both the same. only is false if it lacks an entry.
func more(than, of map[string]any) (added map[string]any, only bool) {
	for key := range than {
		if _, has := of[key]; !has {
			return nil, false
		}
	}
	for key, value := range of {
		was, had := than[key]
		inner, isMap := value.(map[string]any)
		before, wasMap := was.(map[string]any)
		switch {
		case isMap && wasMap:
			below, only := more(before, inner)
			if !only {
				return nil, false
			}
			if below == nil {
				continue
			}
			value = below
		case had && reflect.DeepEqual(was, value):
			continue
		}
		if added == nil {
			added = map[string]any{}
		}
		added[key] = value
	}
	return added, true
}

// with is a map with more in it. It shares with the map what that does not change.
func (v *Values) with(was, added map[string]any) map[string]any {
	if len(added) == 0 {
		return was
	}
	made := maps.Clone(was)
	for key, value := range added {
		inner, isMap := value.(map[string]any)
		before, wasMap := was[key].(map[string]any)
		if isMap && wasMap {
			made[unique.Make(key).Value()] = v.with(before, inner)
		} else {
			made[unique.Make(key).Value()] = v.Once(value)
		}
	}
	return made
}

// storedSource is a source with what came of it, as a line of a file.
type storedSource struct {
	Name              string
	Kustomize, Listed bool     `json:",omitempty"`
	Warnings, Passed  []string `json:",omitempty"`
	Inputs            Inputs
	Objects           []storedObject
}

// storedObject is one of its objects.
type storedObject struct {
	File       string
	Line, Text int
	Content    []byte
	Desired    map[string]any
	// Added is what Defaulted has more than Desired.
	Added   map[string]any `json:",omitempty"`
	Ignored [][]string     `json:",omitempty"`
	Warning string         `json:",omitempty"`
}

// stored is a source as a line of a file has it; known is false if it can have none.
func stored(one source, what kept) (_ storedSource, known bool) {
	s := storedSource{
		Name: one.name, Kustomize: one.kustomize, Listed: one.listed,
		Warnings: what.warnings, Passed: what.ignored, Inputs: what.inputs,
	}
	for _, o := range what.objects {
		added, only := more(o.Desired.Object, o.Defaulted.Object)
		if !only {
			return storedSource{}, false
		}
		s.Objects = append(s.Objects, storedObject{
			File: o.Origin.File, Line: o.Origin.Line, Text: o.Text, Content: o.content[:],
			Desired: o.Desired.Object, Added: added, Ignored: o.Ignored, Warning: o.Warning,
		})
	}
	return s, true
}

// readSource reads a line.
func readSource(line []byte, once interned, values *Values) (source, kept, error) {
	var s storedSource
	if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &s); err != nil {
		return source{}, kept{}, err
	}
	what := kept{remarks: remarks{warnings: s.Warnings, ignored: s.Passed}, inputs: make(Inputs, len(s.Inputs))}
	for name, identity := range s.Inputs {
		what.inputs[once.text(name)] = identity
	}
	for _, o := range s.Objects {
		if len(o.Content) != len(content{}) || o.Desired == nil {
			return source{}, kept{}, fmt.Errorf("an object of %s is not whole", s.Name)
		}
		desired := &unstructured.Unstructured{Object: o.Desired}
		desired.Object = values.like(o.Desired, values.last(desired), nil)
		made := Object{
			Ref: refOf(desired), Origin: Origin{File: once.text(o.File), Line: o.Line},
			Desired: desired, Defaulted: &unstructured.Unstructured{Object: values.with(desired.Object, o.Added)},
			Ignored: o.Ignored, Warning: o.Warning, Text: o.Text,
		}
		values.see(made.Defaulted)
		what.objects = append(what.objects, keptObject{Object: made, content: content(o.Content)})
	}
	return source{name: once.text(s.Name), kustomize: s.Kustomize, listed: s.Listed}, what, nil
}

// interned holds each text once.
type interned map[string]string

func (t interned) text(text string) string {
	if known, ok := t[text]; ok {
		return known
	}
	t[text] = text
	return text
}
