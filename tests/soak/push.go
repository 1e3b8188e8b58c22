package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	mostPools   = 5
	mostClasses = 3
	names       = 9
)

// push makes the repository match the fleet.
func (s *soak) push(ctx context.Context, message string) error {
	if err := s.write(); err != nil {
		return err
	}
	commit, err := s.repo.Commit(ctx, message)
	if err != nil {
		return err
	}
	return s.send(ctx, commit)
}

// send pushes a commit with the fleet. The daemon may handle it before the push returns.
func (s *soak) send(ctx context.Context, commit string, flags ...string) error {
	s.history.coming(commit, s.fleet.clone(), time.Now())
	_, err := s.repo.Git(ctx, slices.Concat([]string{"push", "--quiet"}, flags, []string{"origin", "HEAD:main"})...)
	s.history.arrived(time.Now())
	return err
}

// write writes the fleet's files into the clone, and removes all others.
func (s *soak) write() error {
	files := s.fleet.files(s.place)
	err := filepath.WalkDir(s.repo.Clone, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(s.repo.Clone, path)
		if err != nil {
			return err
		}
		if _, wanted := files[filepath.ToSlash(name)]; wanted {
			return nil
		}
		return os.Remove(path)
	})
	for name, content := range files {
		err = errors.Join(err, s.repo.Write(name, []byte(content)))
	}
	return err
}

// change edits the fleet and pushes it.
func (s *soak) change(ctx context.Context, message string, edit func(*fleet)) (string, error) {
	next := s.fleet.clone()
	edit(&next)
	s.fleet, s.setBack = next, false
	return message, s.push(ctx, message)
}

// free draws an unused name.
func (s *soak) free(prefix string, taken func(string) bool) string {
	var free []string
	for i := range names {
		if name := fmt.Sprintf("%s%d", prefix, i); !taken(name) {
			free = append(free, name)
		}
	}
	return s.pick(free)
}

func (s *soak) freePool() string {
	return s.free("p", func(name string) bool { return s.fleet.has(nodePools, name) })
}

func (s *soak) freeClass() string {
	return s.free("c", func(name string) bool { return s.fleet.has(nodeClasses, name) })
}

func (s *soak) newPool() pool {
	return pool{class: s.pick(s.fleet.classNames()), cpu: 50 + 10*s.draw.IntN(20), weight: 1 + s.draw.IntN(99)}
}

func (s *soak) addPool(ctx context.Context) (string, error) {
	if s.fleet.emptied || len(s.fleet.pools) >= mostPools {
		return "", nil
	}
	name, p := s.freePool(), s.newPool()
	return s.change(ctx, "add pool "+name+" of class "+p.class, func(f *fleet) { f.pools[name] = p })
}

func (s *soak) changePool(ctx context.Context) (string, error) {
	name, fresh := s.pick(s.fleet.poolNames()), s.newPool()
	p := s.fleet.pools[name]
	p.cpu, p.weight = fresh.cpu, fresh.weight
	if s.fleet.emptied || p == s.fleet.pools[name] {
		return "", nil
	}
	return s.change(ctx, fmt.Sprintf("change pool %s to weight %d and %d cpu", name, p.weight, p.cpu), func(f *fleet) { f.pools[name] = p })
}

func (s *soak) removePool(ctx context.Context) (string, error) {
	if s.fleet.emptied || len(s.fleet.pools) < 2 {
		return "", nil // the guard holds the last one
	}
	name := s.pick(s.fleet.poolNames())
	return s.change(ctx, "remove pool "+name, func(f *fleet) { delete(f.pools, name) })
}

func (s *soak) renamePool(ctx context.Context) (string, error) {
	from, to := s.pick(s.fleet.poolNames()), s.freePool()
	if s.fleet.emptied {
		return "", nil
	}
	return s.change(ctx, "rename pool "+from+" to "+to, func(f *fleet) {
		f.pools[to] = f.pools[from]
		delete(f.pools, from)
	})
}

func (s *soak) addClass(ctx context.Context) (string, error) {
	if len(s.fleet.classes) >= mostClasses {
		return "", nil
	}
	name := s.freeClass()
	return s.change(ctx, "add class "+name, func(f *fleet) { f.classes[name] = class{team: "red"} })
}

func (s *soak) changeClass(ctx context.Context) (string, error) {
	name, team := s.pick(s.fleet.classNames()), s.pick([]string{"red", "green", "blue"})
	if s.fleet.classes[name].team == team {
		return "", nil
	}
	return s.change(ctx, "class "+name+" is team "+team+"'s", func(f *fleet) { f.classes[name] = class{team: team} })
}

func (s *soak) removeClass(ctx context.Context) (string, error) {
	name := s.pick(s.fleet.unused())
	if name == "" {
		return "", nil
	}
	return s.change(ctx, "remove class "+name, func(f *fleet) { delete(f.classes, name) })
}

func (s *soak) renameClass(ctx context.Context) (string, error) {
	from, to := s.pick(s.fleet.classNames()), s.freeClass()
	return s.change(ctx, "rename class "+from+" to "+to, func(f *fleet) {
		f.classes[to] = f.classes[from]
		delete(f.classes, from)
		for name, p := range f.pools {
			if p.class == from {
				p.class = to
				f.pools[name] = p
			}
		}
	})
}

func (s *soak) breakCommit(ctx context.Context) (string, error) {
	if s.fleet.broken {
		return "", nil
	}
	return s.change(ctx, "break a file", func(f *fleet) { f.broken = true })
}

// dropPools is a merge gone wrong, which the guard holds.
func (s *soak) dropPools(ctx context.Context) (string, error) {
	if s.fleet.emptied {
		return "", nil
	}
	return s.change(ctx, "drop the files of all pools", func(f *fleet) { f.emptied = true })
}

func (s *soak) mend(ctx context.Context) (string, error) {
	if !s.fleet.amiss() {
		return "", nil
	}
	return s.change(ctx, "mend the repository", func(f *fleet) { f.broken, f.emptied = false, false })
}

func (s *soak) writeNotes(ctx context.Context) (string, error) {
	return s.change(ctx, "write notes", func(f *fleet) { f.notes++ })
}

// revert restores the previous commit's content in a new commit.
func (s *soak) revert(ctx context.Context) (string, error) {
	before, err := s.repo.Git(ctx, "rev-parse", "HEAD~1")
	if err != nil {
		return "", nil //nolint:nilerr // the first commit has none before it
	}
	f, known := s.history.at(before)
	if !known {
		return "", nil
	}
	message := "revert to " + before[:8]
	return s.change(ctx, message, func(now *fleet) {
		notes := now.notes + 1 // so that there is something to commit
		*now = f.clone()
		now.notes = notes
	})
}

// forcePush removes some commits from the branch.
func (s *soak) forcePush(ctx context.Context) (string, error) {
	commit, err := s.repo.Git(ctx, "rev-parse", fmt.Sprintf("HEAD~%d", 1+s.draw.IntN(4)))
	if err != nil {
		return "", nil //nolint:nilerr // there are not that many
	}
	f, known := s.history.at(commit)
	if !known {
		return "", nil
	}
	if _, err := s.repo.Git(ctx, "reset", "--quiet", "--hard", commit); err != nil {
		return "", err
	}
	s.fleet, s.setBack = f.clone(), true
	return "back to " + commit[:8] + ": pools " + strings.Join(f.poolNames(), " "), s.send(ctx, commit, "--force")
}
