package stories_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// metricsCommand is `metrics`, `metrics ~ REGEX`, `metrics watch` and `metrics shown`.
func (s *story) metricsCommand(ts *testscript.TestScript, args []string) error {
	folder, address := filepath.Join(s.dir, "scrapes"), "http://"+ts.Getenv("METRICS")+"/metrics"
	timeout, args, pattern, err := options(args)
	switch {
	case err != nil:
		return err
	case pattern != nil && len(args) == 0:
		return s.poll(timeout, func(context.Context) error {
			text, err := s.page(address)
			if err == nil && !pattern.MatchString(text) {
				err = fmt.Errorf("no metric matches %q", pattern)
			}
			return err
		})
	case len(args) == 0:
		ports, err := process.FreePorts(1)
		if err != nil {
			return err
		}
		ts.Setenv("METRICS", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		return nil
	case len(args) == 1 && args[0] == "watch":
		ctx, stop := context.WithCancel(s.ctx)
		s.unwatch = stop
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		go s.scrape(ctx, address, folder)
		return nil
	case len(args) == 1 && args[0] == "shown" && s.unwatch != nil:
		s.unwatch()
		return s.shown(ts, folder)
	}
	return errors.New("usage: metrics [watch | shown | [-t D] ~ REGEX], watched before they are shown")
}

// scrape stores what the daemon serves each second, as Prometheus does, once it serves.
func (s *story) scrape(ctx context.Context, address, folder string) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	served := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			text, err := s.page(address)
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, strconv.FormatInt(now.UnixMilli(), 10)+".txt"), []byte(text), 0o600)
			}
			if err != nil && served && ctx.Err() == nil {
				s.t.Errorf("scrape the daemon: %v", err)
				return
			}
			served = served || err == nil
		}
	}
}

// shown makes Prometheus' library, which is in a module of its own, run all queries of the dashboard and the alerts.
func (s *story) shown(ts *testscript.TestScript, folder string) error {
	cmd := exec.CommandContext(s.ctx, "go", "test", "-trimpath", "-count=1", "-v", "-run", "^TestServed$", ".")
	cmd.Dir = filepath.Join(s.root, "manifests", "alerts")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "PLUMBLINE_SCRAPES="+folder)
	out, err := cmd.CombinedOutput()
	ts.Logf("%s", out)
	if err == nil && !bytes.Contains(out, []byte("--- PASS: TestServed/alerts")) {
		err = errors.New("the test was not run")
	}
	return err
}
