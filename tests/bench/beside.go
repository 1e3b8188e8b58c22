package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// works are what is measured of the peers, in the order of their table.
func works() []work { return []work{peerFirst, peerOne, peerAll, peerRemoval} }

// printPeers sets what the peers took for the same work below what plumbline
// took. It prints nothing where no peer was asked for.
func (t *Table) printPeers(out io.Writer) error {
	if len(t.Peers) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nwork\ttool\twall\ttold\tCPU\twrites\tdry runs\tplumbline is\tbar\t")
	for _, of := range works() {
		own := t.own(of)
		if own != nil {
			fmt.Fprintln(w, besideCells(of, "plumbline", *own), "\t\t")
		}
		for _, p := range t.Peers {
			if row, ok := p.Rows[of]; ok && p.Skipped == "" {
				fmt.Fprintln(w, besideCells(of, p.Name, row), t.faster(own, p.Name, row))
			}
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the peers' table: %w", err)
	}
	_, err := io.WriteString(out, "told: until the tool's own status says so; a removal by plumbline is waited for, so its wall is that\n")
	return err
}

// own is plumbline's row of a work, nil where it was not measured.
func (t *Table) own(of work) *Row {
	for _, r := range t.Rows {
		if r.Peer == of {
			return r
		}
	}
	return nil
}

func besideCells(of work, name string, r Row) string {
	return strings.Join([]string{
		string(of), name, seconds(r.Wall), seconds(r.Told), seconds(r.CPU), fmt.Sprint(r.Writes), fmt.Sprint(r.DryRuns), "",
	}, "\t")
}

// faster says how many times as fast as a peer plumbline is, and whether that is
// enough.
func (t *Table) faster(own *Row, name string, row Row) string {
	if own == nil {
		return "\t\t"
	}
	ratio := row.Wall.Seconds() / own.Wall.Seconds()
	cells := fmt.Sprintf("%.1f× as fast\t", ratio)
	if bar := own.faster(name, t.Objects); bar > 0 {
		cells += fmt.Sprintf("≥ %.0f× %s", bar, verdict(ratio >= bar))
	}
	return cells + "\t"
}

// line says what a peer ran with, and what memory it held after that.
func (p *Peer) line() string {
	var memory []string
	for _, resident := range p.Resident {
		memory = append(memory, fmt.Sprint(resident>>20))
	}
	return fmt.Sprintf("%s: %s; %s MB of memory after the changes", p.Name, p.Settings, strings.Join(memory, " + "))
}
