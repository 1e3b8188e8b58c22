package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// apart returns the scenes that do not share a cluster: they measure plumbline's own process, with a fleet that it
// generates, or a rollout in a sandbox.
func apart() []string { return []string{planScene, whatIfScene, paceScene} }

const (
	planScene   = "plan"
	whatIfScene = "what-if"
)

// daemonGOGC is the daemon's own setting (cmd/plumbline/run.go).
const daemonGOGC = "GOGC=200"

// measureApart runs the selected ones of those scenes.
func measureApart(ctx context.Context, o Options, t *Table) error {
	dir, err := os.MkdirTemp("", "plumbline-bench-")
	if err != nil {
		return fmt.Errorf("make the folder of the run: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	g := &ground{options: o, dir: dir}
	for _, s := range []scene{
		{planScene, func(ctx context.Context) (err error) { t.Plans, err = g.plans(ctx); return err }},
		{whatIfScene, func(ctx context.Context) (err error) { t.WhatIf, err = g.whatIf(ctx); return err }},
		{paceScene, func(ctx context.Context) (err error) { t.Paced, err = g.pace(ctx); return err }},
	} {
		if !o.wants(s.name) {
			continue
		}
		if err := g.shown(ctx, s.name, s.play); err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	return nil
}

// plans makes plumbline's own benchmark plan a commit, each time in a separate process.
func (g *ground) plans(ctx context.Context) ([]Planned, error) {
	program, err := g.compile(ctx, "plan")
	if err != nil {
		return nil, err
	}
	found := map[string][]Planned{}
	for i := range g.options.Repeat {
		g.line.Say(fmt.Sprintf("plans %d of %d", i+1, g.options.Repeat))
		out, err := g.product(ctx, "plan", program, "-test.run=^$", "-test.bench=^BenchmarkFleet$", "-test.benchtime=1x", g.claims())
		if err != nil {
			return nil, err
		}
		for name, value := range benchmarks(out) {
			_, name, _ = strings.Cut(name, "/")
			found[name] = append(found[name], Planned{
				Name: name, Claims: g.options.Fleet, Wall: time.Duration(value["ns/op"]), CPU: time.Duration(value["CPU-ns"]),
				Peak: int64(value["B-peak"]), Ratio: value["decode/plan"],
			})
		}
	}
	var all []Planned
	for _, name := range []string{"first", "again", "policies"} {
		if len(found[name]) != g.options.Repeat {
			return nil, fmt.Errorf("BenchmarkFleet/%s was measured %d times; want %d", name, len(found[name]), g.options.Repeat)
		}
		all = append(all, middlePlan(found[name]))
	}
	return all, nil
}

// middlePlan returns the one with the median time, with the maximum memory of all.
func middlePlan(plans []Planned) Planned {
	slices.SortFunc(plans, func(a, b Planned) int { return int(a.Wall - b.Wall) })
	m := plans[len(plans)/2]
	for _, p := range plans {
		m.Peak = max(m.Peak, p.Peak)
	}
	return m
}

// whatIf runs `plumbline plan --what-if` with a snapshot file, and separately one call of Karpenter's simulation with
// the whole cluster.
func (g *ground) whatIf(ctx context.Context) (*WhatIf, error) {
	program, err := g.compile(ctx, "simulate")
	if err != nil {
		return nil, err
	}
	if _, err := g.product(ctx, "simulate", program, "-test.run=^TestWriteLarge$", "-into="+g.dir, g.claims()); err != nil {
		return nil, err
	}
	g.line.Say("plumbline plan --what-if")
	w := &WhatIf{Claims: g.options.Fleet}
	cmd := exec.CommandContext(ctx, filepath.Join(g.options.Root, "bin", "plumbline"), "plan", filepath.Join(g.dir, "fleet"),
		"--what-if", "--snapshot", filepath.Join(g.dir, "snapshot.json.gz"), "--exit-code=false", "-o", "json")
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	began := time.Now()
	out, err := cmd.Output()
	w.Wall = time.Since(began)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr)
	}
	w.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		w.Peak = used.Maxrss << 10
	}
	if err := w.read(out); err != nil {
		return nil, err
	}
	g.line.Say("Karpenter's own simulation")
	simulation, err := g.product(ctx, "simulate", program, "-test.run=^$", "-test.bench=^BenchmarkKarpenter$", "-test.benchtime=1x", "-whole", g.claims())
	if err != nil {
		return nil, err
	}
	own := benchmarks(simulation)["BenchmarkKarpenter"]
	w.Own, w.OwnCPU = time.Duration(own["ns/op"]), time.Duration(own["CPU-ns"])
	return w, nil
}

// read reads the result of a what-if. It returns an error unless that covers the whole fleet.
func (w *WhatIf) read(out []byte) error {
	report := struct {
		WhatIf struct {
			Unavailable                       string
			NodesEnding, PodsLeaving          int
			Nowhere, NewNodes, Staying, Moves []json.RawMessage
		} `json:"whatIf"`
	}{}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("read the what-if: %w", err)
	}
	said := report.WhatIf
	w.Ending, w.Leaving = said.NodesEnding, said.PodsLeaving
	if said.Unavailable != "" || w.Ending != w.Claims/10 || w.Leaving != 5*w.Ending || len(said.Nowhere) > 0 || len(said.NewNodes) == 0 {
		return fmt.Errorf("of %d nodes %d end and %d pods leave, %d of them with nowhere to go, %d kinds of new nodes, %s: want a tenth of the nodes, with five pods each, and new ones for them",
			w.Claims, w.Ending, w.Leaving, len(said.Nowhere), len(said.NewNodes), said.Unavailable)
	}
	return nil
}

func (g *ground) claims() string { return fmt.Sprintf("-claims=%d", g.options.Fleet) }

// compile builds the tests of a package in reconcile.
func (g *ground) compile(ctx context.Context, of string) (program string, err error) {
	g.line.Say("the tests of " + of + " are compiled")
	program = filepath.Join(g.dir, of+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-c", "-o", program, "./reconcile/"+of)
	cmd.Dir, cmd.Env = g.options.Root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the tests of reconcile/%s: %w: %s", of, err, out)
	}
	return program, nil
}

// product runs the tests of a package, and returns their output.
func (g *ground) product(ctx context.Context, of, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = filepath.Join(g.options.Root, "reconcile", of), append(os.Environ(), daemonGOGC)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// benchmarks parses the output of Go's benchmarks: values by their units, by the benchmark's name without the number of
// processors.
func benchmarks(out string) map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if at := strings.LastIndex(name, "-"); at > 0 {
			name = name[:at]
		}
		values := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				values[fields[i+1]] = value
			}
		}
		found[name] = values
	}
	return found
}
