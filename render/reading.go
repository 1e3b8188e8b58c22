package render

import (
	"context"
	"io/fs"
	"sync/atomic"
	"time"
)

// Reading is how long one pass may read the files of its Snapshot.
const Reading = time.Minute

// Within is the Snapshot for one pass over a path: a read fails once the context has ended,
// and once all reads together have taken longer than the limit. A commit
// can make each of its names as long a way as symlinks go. Errors: the context's, *SlowError.
func (s Snapshot) Within(ctx context.Context, name string, limit time.Duration) Snapshot {
	if s.FS == nil {
		return s
	}
	timed := &timedFiles{FS: s.FS, end: ctx.Err, slow: &SlowError{Path: name, Limit: limit, Reading: true}}
	s.FS = timed
	switch known := timed.FS.(type) {
	case Compared:
		s.FS = timedComparisons{timedIdentities{timed, known}, known}
	case Identified:
		s.FS = timedIdentities{timed, known}
	}
	return s
}

// untimed are the files of a Snapshot as they were before Within.
func untimed(files fs.FS) fs.FS {
	if f, ok := files.(interface{ untimed() fs.FS }); ok {
		return f.untimed()
	}
	return files
}

// timedFiles is a file system whose reads are timed.
type timedFiles struct {
	fs.FS
	// end is the error of a context that has ended.
	end   func() error
	slow  *SlowError
	spent atomic.Int64
}

var (
	_ fs.ReadFileFS = (*timedFiles)(nil)
	_ fs.ReadDirFS  = (*timedFiles)(nil)
	_ fs.StatFS     = (*timedFiles)(nil)
	_ Identified    = timedIdentities{}
	_ Compared      = timedComparisons{}
)

// timed makes one read.
func timed[T any](f *timedFiles, op, name string, read func() (T, error)) (found T, err error) {
	err = f.end()
	if err == nil && time.Duration(f.spent.Load()) > f.slow.Limit {
		err = f.slow
	}
	if err != nil {
		return found, &fs.PathError{Op: op, Path: name, Err: err}
	}
	began := time.Now()
	defer func() { f.spent.Add(int64(time.Since(began))) }()
	return read()
}

// Open is that of fs.FS.
func (f *timedFiles) Open(name string) (fs.File, error) {
	return timed(f, "open", name, func() (fs.File, error) { return f.FS.Open(name) })
}

// ReadFile is that of fs.ReadFileFS.
func (f *timedFiles) ReadFile(name string) ([]byte, error) {
	return timed(f, "readfile", name, func() ([]byte, error) { return fs.ReadFile(f.FS, name) })
}

// ReadDir is that of fs.ReadDirFS.
func (f *timedFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	return timed(f, "readdir", name, func() ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) })
}

// Stat is that of fs.StatFS.
func (f *timedFiles) Stat(name string) (fs.FileInfo, error) {
	return timed(f, "stat", name, func() (fs.FileInfo, error) { return fs.Stat(f.FS, name) })
}

// timedIdentities is one that knows identities, too.
type timedIdentities struct {
	*timedFiles
	known Identified
}

// Identity is that of Identified.
func (f timedIdentities) Identity(name string) (string, error) {
	return timed(f.timedFiles, "identity", name, func() (string, error) { return f.known.Identity(name) })
}

// timedComparisons is one that knows where it differs, too.
type timedComparisons struct {
	timedIdentities
	compared Compared
}

// Since is that of Compared.
func (f timedComparisons) Since(before fs.FS) (found Difference, known bool) {
	_, err := timed(f.timedFiles, "compare", ".", func() (any, error) {
		found, known = f.compared.Since(untimed(before))
		return nil, nil
	})
	return found, known && err == nil
}

// Direct is that of Compared.
func (f timedComparisons) Direct(name string) bool { return f.compared.Direct(name) }

func (f *timedFiles) untimed() fs.FS { return f.FS }
