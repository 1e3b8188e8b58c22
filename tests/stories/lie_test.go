package stories_test

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
)

// publish is `registry publishes CHART VERSION as TAG [says=V] [image=V] [PATH=FILE…]`.
func (s *story) publish(ts *testscript.TestScript, args []string) error {
	if len(args) < 4 || args[2] != "as" {
		return errors.New("usage: registry publishes CHART VERSION as TAG [says=V] [image=V] [PATH=FILE…]")
	}
	settings, err := settingsOf(args[4:])
	if err != nil {
		return err
	}
	lie := charts.Lie{Chart: args[0], Version: args[1], Tag: args[3], Says: settings["says"], Image: settings["image"], Files: map[string][]byte{}}
	delete(settings, "says")
	delete(settings, "image")
	for path, file := range settings {
		lie.Files[path] = nil
		if file == "" {
			continue
		}
		if lie.Files[path], err = os.ReadFile(ts.MkAbs(file)); err != nil {
			return err
		}
	}
	withdraw, err := s.c.Charts.Publish(s.ctx, lie)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, withdraw)
	return nil
}

// undoAll restores the registry and AWS for the next story, the last change first.
func (s *story) undoAll() error {
	var failed error
	for _, undo := range slices.Backward(s.undo) {
		failed = errors.Join(failed, undo(context.WithoutCancel(s.ctx)))
	}
	s.undo = nil
	return failed
}
