package render

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits limit what a repository may require of a render.
type Limits struct {
	// FileBytes of one file, TotalBytes of all files.
	FileBytes, TotalBytes int64
	// Files that are read, and Folders that are listed.
	Files, Folders int
	// Values of everything that is read or generated: each takes some 100 bytes of memory.
	Values int
	// Objects of the Set, and ObjectValues of one of them: validating one against its schema takes a millisecond, and
	// the time of its expressions grows with the square of a map.
	Objects, ObjectValues int
	// Text of all objects of the Set, in bytes, keys included: a reconcile holds it several times, as the desired and
	// live objects and the requests.
	Text int
	// Work is how long building and validating objects may take in total; the time of child processes, and of waiting
	// for them, does not count.
	Work time.Duration
	// Depth of folders below the path.
	Depth int
}

// DefaultLimits are far beyond any fleet, and within the Deployment's resources: 20,000 files, 64 MiB, 2,000,000
// values, 15,000 objects with 16 MiB of text, a minute of work.
func DefaultLimits() Limits {
	return Limits{
		FileBytes: 1 << 20, TotalBytes: 64 << 20, Files: 20_000, Folders: 20_000, Values: 2_000_000, Objects: 15_000, ObjectValues: 10_000,
		Text: 16 << 20, Work: time.Minute, Depth: 32,
	}
}

// errLimit is wrapped by every error of a limit that aborts the render.
var errLimit = errors.New("too much to render")

// allowance is the remaining part of the limits.
type allowance struct {
	limits Limits

	mu      sync.Mutex
	files   int
	bytes   int64
	folders int
	values  int
	objects int
	text    int
	work    time.Duration
}

// read subtracts one file.
func (a *allowance) read(name string, size int64) error {
	if size > a.limits.FileBytes {
		return tooLarge(name, a.limits.FileBytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files++
	a.bytes += size
	switch {
	case a.files > a.limits.Files:
		return fmt.Errorf("%w: more than %d files", errLimit, a.limits.Files)
	case a.bytes > a.limits.TotalBytes:
		return fmt.Errorf("%w: more than %d bytes", errLimit, a.limits.TotalBytes)
	default:
		return nil
	}
}

// list subtracts the listing of a folder. A Git tree may contain one folder many times: two in each of two in each of
// two, and so on.
func (a *allowance) list() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.folders++; a.folders > a.limits.Folders {
		return fmt.Errorf("%w: more than %d folders", errLimit, a.limits.Folders)
	}
	return nil
}

// hold subtracts values.
func (a *allowance) hold(values int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values += values; a.values > a.limits.Values {
		return fmt.Errorf("%w: more than %d values", errLimit, a.limits.Values)
	}
	return nil
}

// object subtracts one object with a number of values.
func (a *allowance) object(values int) error {
	if values > a.limits.ObjectValues {
		return tooManyValues(a.limits.ObjectValues)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.objects++
	return a.limits.checkObjects(a.objects)
}

// grow subtracts the values that substitution has added to one object.
func (a *allowance) grow(before, after int) error {
	if after > a.limits.ObjectValues {
		return tooManyValues(a.limits.ObjectValues)
	}
	return a.hold(max(0, after-before))
}

func tooManyValues(limit int) error {
	return fmt.Errorf("it has more than %d values, which no definition has", limit)
}

// write subtracts the text of one object.
func (a *allowance) write(text int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text += text
	return a.limits.checkText(a.text)
}

func (l Limits) checkText(text int) error {
	if text > l.Text {
		return fmt.Errorf("%w: the definitions have more than %d bytes of text: split them over several NodeSyncs", errLimit, l.Text)
	}
	return nil
}

// countCached subtracts what was cached from the last render, as if it were new.
func (a *allowance) countCached(objects []keptObject) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range objects {
		a.text += objects[i].Text
	}
	a.objects += len(objects)
	return cmp.Or(a.limits.checkObjects(a.objects), a.limits.checkText(a.text))
}

func (l Limits) checkObjects(objects int) error {
	if objects > l.Objects {
		return fmt.Errorf("%w: more than %d objects", errLimit, l.Objects)
	}
	return nil
}

// SlowError reports that building a Set takes too long.
type SlowError struct {
	Path  string
	Limit time.Duration
	// Reading reports whether reading the files took too long, rather than building the objects.
	Reading bool
}

// Error returns what to do.
func (e *SlowError) Error() string {
	if e.Reading {
		return fmt.Sprintf("to read the files for %s takes more than %s: move what is no definition out of the path, and put files in the place of symlinks", e.Path, e.Limit)
	}
	return fmt.Sprintf("to check the definitions below %s takes more than %s: move what is no definition out of the path, or split them over several NodeSyncs", e.Path, e.Limit)
}

// spend subtracts the time that an object took, and reports whether any is left.
func (a *allowance) spend(work time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.work += work
	return a.work <= a.limits.Work
}

// substitute subtracts the text that variables have added to one object, as if it had been read.
func (a *allowance) substitute(size int64) error {
	if size > a.limits.FileBytes {
		return fmt.Errorf("substitution makes it larger than %d bytes, which no definition is", a.limits.FileBytes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes += size; a.bytes > a.limits.TotalBytes {
		return fmt.Errorf("%w: substitution makes more than %d bytes of it", errLimit, a.limits.TotalBytes)
	}
	return nil
}

func tooLarge(name string, limit int64) Error {
	return Error{File: name, Message: fmt.Sprintf("it is larger than %d bytes, which no definition is: move it out of the path", limit)}
}
