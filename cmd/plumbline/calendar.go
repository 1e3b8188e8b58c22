package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// maxDays is the maximum number of days that `plumbline calendar` shows.
const maxDays = 90

// calendarTime is the format of printed times.
const calendarTime = "Mon 2006-01-02 15:04 MST"

// syncCalendar is the calendar of one NodeSync as printed.
type syncCalendar struct {
	Namespace string                `json:"namespace"`
	NodeSync  string                `json:"nodeSync"`
	Periods   []plan.CalendarPeriod `json:"periods"`

	// zone is the time zone of the printed periods.
	zone *time.Location
}

func newCalendarCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calendar [NODESYNC...]",
		Short: "List when nodes may be removed or replaced",
		Long: `List the times, from now on, at which nodes of a NodeSync may be removed or replaced. They
result from spec.guard.windows, spec.guard.freeze, and an active emergency. Times are in
the time zone of the windows and freezes, or in UTC if these have several time zones; -o json
uses UTC. Without a name the command lists all NodeSyncs of the namespace.

Outside these times, removals and changes that replace nodes wait, and then continue
automatically. Reverts do not wait.`,
		Example:           "  plumbline calendar prod-eu\n  plumbline calendar --days 7 -o json",
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 100),
	}
	days := cmd.Flags().Int("days", 30, fmt.Sprintf("number of days to list, at most %d", maxDays))
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *days < 1 || *days > maxDays {
			return fmt.Errorf("--days %d: must be from 1 to %d", *days, maxDays)
		}
		list, missing := listNodeSyncs(cmd, kubeconfig, false, args)
		if missing != nil && (list == nil || len(list.Items) == 0) {
			return missing
		}
		now := time.Now().UTC().Truncate(time.Second)
		found, mistakes := []syncCalendar{}, []error{missing}
		for i := range list.Items {
			one, err := calendarOf(cmd.ErrOrStderr(), &list.Items[i], now, now.AddDate(0, 0, *days))
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: %w", nodeSyncWord(list.Items[i].Name), err))
				continue
			}
			found = append(found, one)
		}
		if wrong := errors.Join(mistakes...); len(found) == 0 && wrong != nil {
			return wrong
		}
		err := output.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
			if len(found) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "no NodeSync here; `plumbline get -A` lists all")
				return nil
			}
			printCalendars(out, found)
			return nil
		})
		return errors.Join(append(mistakes, err)...)
	}
	return cmd
}

// calendarOf reads the calendar of a NodeSync. It prints the annotations that do not count to errs.
func calendarOf(errs io.Writer, sync *v1alpha1.NodeSync, now, to time.Time) (syncCalendar, error) {
	days, err := plan.CalendarOf(sync.Spec.Guard, now)
	if err != nil {
		return syncCalendar{}, err
	}
	found := syncCalendar{Namespace: sync.Namespace, NodeSync: sync.Name, zone: zoneOf(sync.Spec.Guard)}
	until, mistake := plan.Emergency(sync.Annotations[v1alpha1.EmergencyAnnotation], now)
	if mistake != "" {
		fmt.Fprintf(errs, "%s: the annotation %s does not count: it %s\n", nodeSyncWord(sync.Name), v1alpha1.EmergencyAnnotation, mistake)
	}
	if !until.IsZero() {
		emergency := plan.CalendarPeriod{From: now, To: until.UTC(), Open: true, By: v1alpha1.EmergencyAnnotation}
		if by := sync.Annotations[v1alpha1.EmergencyByAnnotation]; by != "" {
			emergency.Reason = "declared by " + by
			if why := sync.Annotations[v1alpha1.EmergencyReasonAnnotation]; why != "" {
				emergency.Reason += ": " + why
			}
		}
		found.Periods = []plan.CalendarPeriod{emergency}
		now = until.UTC()
	}
	found.Periods = append(found.Periods, days.Periods(now, to)...)
	return found, nil
}

// zoneOf returns the time zone of all windows and freezes; UTC if they have several.
func zoneOf(guard v1alpha1.Guard) *time.Location {
	var names []string
	for _, w := range guard.Windows {
		names = append(names, w.TimeZone)
	}
	for _, f := range guard.Freeze {
		names = append(names, f.TimeZone)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) != 1 {
		return time.UTC
	}
	zone, err := time.LoadLocation(names[0])
	if err != nil {
		return time.UTC // plan.CalendarOf has rejected it
	}
	return zone
}

// printCalendars prints a row for each period.
func printCalendars(out io.Writer, all []syncCalendar) {
	t := display.NewFittedTable(out, "NODESYNC", "FROM", "TO", "NODES", "WHY")
	for _, one := range all {
		for _, p := range one.Periods {
			nodes, why := "may be replaced", p.By
			if !p.Open {
				nodes = "stay"
			}
			if p.Reason != "" {
				why += ": " + p.Reason
			}
			if len(one.Periods) == 1 && p.By == "" {
				why = "no window or freeze applies"
			}
			t.AppendRow([]any{one.NodeSync, p.From.In(one.zone).Format(calendarTime), p.To.In(one.zone).Format(calendarTime), nodes, why})
		}
	}
	t.Render()
}
