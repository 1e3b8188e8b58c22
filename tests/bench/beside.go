package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// works returns what is measured for each tool, in the order of their table.
func works() []work { return []work{firstApply, oneChanged, allChanged, poolsRemoved} }

// printPeers compares plumbline and its peers, work by work. It prints nothing without peers.
func (t *Table) printPeers(out io.Writer) error {
	if len(t.Peers) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwork\ttool\twall\treported\tCPU\twrites\tdry runs\t÷ plumbline\tbar\t")
	own := t.Peers[0].Rows
	for _, of := range works() {
		for _, p := range t.Peers {
			row, ok := p.Rows[of]
			if !ok {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n",
				of, p.Name, seconds(row.Wall), seconds(row.Told), seconds(row.CPU), row.Writes, row.DryRuns, t.compare(own[of], row, of, p.Name))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the peers' table: %w", err)
	}
	_, err := io.WriteString(out, `reported: until the tool's own status says so; ÷ plumbline: wall ÷ plumbline's wall, where pools are removed ÷ what it was reported after,
as plumbline waits until they are gone
`)
	return err
}

// compare returns how many times as long as plumbline a peer takes, and whether that meets the goal.
func (t *Table) compare(own, row Row, of work, name string) string {
	if name == ownName || own.Wall == 0 {
		return "\t\t"
	}
	took := own.Wall
	if of == poolsRemoved {
		took = own.Told
	}
	ratio := row.Wall.Seconds() / took.Seconds()
	cells := fmt.Sprintf("%.1f×\t", ratio)
	if bar := faster(of, name, t.Objects); bar > 0 {
		cells += fmt.Sprintf("≥ %.0f× %s", bar, verdict(ratio >= bar))
	}
	return cells + "\t"
}

// faster returns how many times as fast as a peer plumbline should be; 0 if there is no goal.
func faster(of work, peer string, objects int) float64 {
	small := objects <= 400
	switch {
	case of == poolsRemoved && peer == "flux" && objects >= 1000:
		return 5
	case of != oneChanged:
		return 0
	case peer == "flux" && small:
		return 10
	case peer == "flux":
		return 30
	case small:
		return 6
	default:
		return 20
	}
}

// line returns how a tool was run, and its memory after that.
func (p *Peer) line() string {
	var memory []string
	for _, resident := range p.Resident {
		memory = append(memory, fmt.Sprint(resident>>20))
	}
	return fmt.Sprintf("%s: %s; %s MB of memory after the changes", p.Name, p.Settings, strings.Join(memory, " + "))
}
