package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/wholefile"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/legacy/conversion"
)

func newConvertCommand() *cobra.Command {
	var options conversion.Options
	var write bool
	cmd := &cobra.Command{
		Use:   "convert FILE|FOLDER",
		Short: "Convert Karpenter's definitions of before v1 to v1",
		Long: `Convert v1alpha5 Provisioners, v1alpha1 AWSNodeTemplates, and v1beta1 NodePools and
EC2NodeClasses in a file or a folder to v1. The command prints what becomes of each field and
the difference, and changes nothing. With --write it writes the files in place.

Comments, order and all other documents of a file are kept. What the earlier version set by
default and v1 does not is written explicitly, so that new nodes are equal to those of before.
Nodes of v1beta1 definitions are not replaced by the conversion.

Results: mapped (at the same place), moved, added (a default of before), dropped with the
reason, decision (what only you can decide), refused (what v1 has nothing for). As long as a
decision is open, nothing is written. Helm templates and patches of kustomizations are not
converted: the command names them.

Convert the definitions of a cluster together: v1 has the kubelet settings of a NodePool in
its EC2NodeClass. The command needs neither a cluster nor a network.

Exit codes: 0 nothing to convert, or all converted and written; 1 an error, an open decision,
or something that is not converted; 2 definitions can be converted.`,
		Example: "  plumbline convert ./clusters/prod-eu\n  plumbline convert ./clusters/prod-eu --write\n" +
			"  plumbline convert provisioner.yaml --role KarpenterNodeRole-prod-eu -o yaml",
		Args: cobra.ExactArgs(1),
	}
	output := addOutput(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&write, "write", false, "write the files in place")
	flags.StringVar(&options.Role, "role", "", "IAM role of the nodes of AWSNodeTemplates without an instance profile")
	flags.StringVar(&options.InstanceProfile, "instance-profile", "",
		"instance profile of the nodes of AWSNodeTemplates without one: that of Karpenter's setting aws.defaultInstanceProfile")
	flags.BoolVar(&options.CopyClasses, "copy-classes", false,
		"copy an EC2NodeClass if its NodePools have different kubelet settings; replaces the nodes of NodePools that get a copy")
	cmd.MarkFlagsMutuallyExclusive("role", "instance-profile")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := convert(args[0], options, write)
		if err != nil {
			return err
		}
		if err := output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { return report.print(out) }); err != nil {
			return err
		}
		return report.exit()
	}
	return cmd
}

// convertReport is the output of `plumbline convert`.
type convertReport struct {
	Files []convertedFile   `json:"files"`
	Left  []conversion.Left `json:"left"`
	// Open counts open decisions and refused fields; as long as there are any, nothing is written.
	Open    int  `json:"open"`
	Written bool `json:"written"`
}

// convertedFile is a file with the difference between before and after; empty as long as a decision is open.
type convertedFile struct {
	conversion.Converted `json:",inline"`
	Diff                 string `json:"diff,omitempty"`
}

// convert converts a file or a folder, and writes it if nothing is open.
func convert(name string, options conversion.Options, write bool) (*convertReport, error) {
	read, err := readDefinitions(name)
	if err != nil {
		return nil, err
	}
	made := conversion.Convert(read.files, options)
	report := &convertReport{Files: []convertedFile{}, Left: slices.Concat([]conversion.Left{}, read.left, made.Left), Open: made.Open()}
	var changes []wholefile.Change
	// Files that gain kubelet settings are written before those that lose them.
	poolsLast := func(a, b conversion.Converted) int { return cmp.Compare(poolsIn(a), poolsIn(b)) }
	for _, file := range slices.SortedStableFunc(slices.Values(made.Files), poolsLast) {
		changes = append(changes, wholefile.Change{Path: read.paths[file.Name], Before: file.Before, After: file.After})
	}
	if write && report.Open == 0 && len(changes) > 0 {
		if err := wholefile.Replace(changes); err != nil {
			return nil, fmt.Errorf("write the converted definitions: %w", err)
		}
		report.Written = true
	}
	for _, file := range made.Files {
		one := convertedFile{Converted: file}
		if report.Open == 0 {
			one.Diff = udiff.Unified("a/"+file.Name, "b/"+file.Name, string(file.Before), string(file.After))
		}
		report.Files = append(report.Files, one)
	}
	return report, nil
}

// poolsIn counts the pools in a file.
func poolsIn(file conversion.Converted) (count int) {
	for _, object := range file.Objects {
		if object.Kind == "Provisioner" || object.Kind == "NodePool" {
			count++
		}
	}
	return count
}

// definitions are the files to convert.
type definitions struct {
	files []conversion.File
	// paths are where they are on disk, by their names.
	paths map[string]string
	left  []conversion.Left
	bytes int64
}

// readDefinitions reads a file, or the YAML and JSON files of a folder and of those in it. Folders whose name begins with
// a dot are left out, and links to folders are not followed.
func readDefinitions(name string) (*definitions, error) {
	root, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	d := &definitions{paths: map[string]string{}}
	if !info.IsDir() {
		return d, d.read(filepath.ToSlash(name), root, info)
	}
	return d, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !isDefinition(entry.Name()) {
			return nil
		}
		return d.entry(path.Join(filepath.ToSlash(name), filepath.ToSlash(relative)), root, file, entry)
	})
}

// isDefinition reports whether a file may have definitions, or be a kustomization.
func isDefinition(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) || name == "Kustomization"
}

// entry reads one file of a folder.
func (d *definitions) entry(name, root, file string, entry fs.DirEntry) error {
	target := file
	if entry.Type()&fs.ModeSymlink != 0 {
		found, err := filepath.EvalSymlinks(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(found, root+string(filepath.Separator)) {
			return nil // it is read under its own name
		}
		target = found
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if target == file {
		return d.read(name, target, info)
	}
	if concerns, err := mentions(target); err != nil || !concerns {
		return err
	}
	d.left = append(d.left, conversion.Left{
		File: name, What: "symbolic link", Why: "it leads to " + target + ", outside of the folder: convert that file",
	})
	return nil
}

// mentions reports whether a file mentions an earlier version of Karpenter.
func mentions(name string) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return conversion.Concerns(bufio.NewReader(file)), nil
}

// read reads a file.
func (d *definitions) read(name, file string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a folder", name)
	}
	limits := render.DefaultLimits()
	if info.Size() > limits.FileBytes {
		concerns, err := mentions(file)
		if concerns {
			d.left = append(d.left, conversion.Left{
				File: name, What: "file", Why: fmt.Sprintf("it has more than %d bytes, which plumbline does not read: split it", limits.FileBytes),
			})
		}
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	d.bytes += int64(len(data))
	if len(d.files) >= limits.Files || d.bytes > limits.TotalBytes {
		return fmt.Errorf("%s: more than %d files, or %d bytes: convert the folders in it one by one", name, limits.Files, limits.TotalBytes)
	}
	d.files = append(d.files, conversion.File{Name: name, Data: data})
	d.paths[name] = file
	return nil
}

// print prints what becomes of each field that changes, what is left, and the difference.
func (r *convertReport) print(out io.Writer) error {
	objects := 0
	for _, file := range r.Files {
		for _, object := range file.Objects {
			objects++
			fmt.Fprintf(out, "%s:%d: %s/%s becomes %s\n", redact.VisibleName(file.Name), object.Line, object.Kind, object.Name,
				english.OxfordWordSeries(object.Becomes, "and"))
			printFields(out, object.Fields)
		}
	}
	for _, left := range r.Left {
		at := redact.VisibleName(left.File)
		if left.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, left.Line)
		}
		fmt.Fprintf(out, "%s: not converted: %s: %s\n", at, left.What, left.Why)
	}
	if !r.Written {
		if err := r.printDiffs(out); err != nil {
			return err
		}
	}
	converted := fmt.Sprintf("%s in %s", english.Plural(objects, "definition", ""), english.Plural(len(r.Files), "file", ""))
	switch {
	case r.Open > 0:
		open := english.Plural(r.Open, "field or file", "fields or files")
		fmt.Fprintf(out, "%s: nothing is written, because %s must be decided or corrected first\n", converted, open)
	case objects == 0:
		fmt.Fprintln(out, "nothing to convert")
	case r.Written:
		fmt.Fprintf(out, "%s: written\n", converted)
	default:
		fmt.Fprintf(out, "%s: --write writes them\n", converted)
	}
	return nil
}

// printFields prints what becomes of fields; those that stay as they are, are counted.
func printFields(out io.Writer, fields []conversion.Field) {
	unchanged := 0
	for _, f := range fields {
		if f.Unchanged() {
			unchanged++
			continue
		}
		line := fmt.Sprintf("  %-8s  %s", f.Result, f.Path)
		if f.Line > 0 {
			line += fmt.Sprintf(" (line %d)", f.Line)
		}
		if f.To != "" {
			line += " → " + f.To
		}
		if f.Object != "" {
			line += " in " + f.Object
		}
		if f.Value != "" {
			line += ": " + f.Value
		}
		if f.Reason != "" {
			line += "; " + f.Reason
		}
		fmt.Fprintln(out, line)
	}
	if unchanged > 0 {
		fmt.Fprintf(out, "  %s unchanged\n", english.Plural(unchanged, "field", ""))
	}
}

// printDiffs prints the differences, as git does.
func (r *convertReport) printDiffs(out io.Writer) error {
	paint := display.Paint(out)
	for _, file := range r.Files {
		for line := range strings.Lines(file.Diff) {
			if _, err := fmt.Fprintln(out, paint(strings.TrimSuffix(line, "\n"), colourOfLine(line))); err != nil {
				return err
			}
		}
	}
	return nil
}

// exit returns the command's exit code.
func (r *convertReport) exit() error {
	switch {
	case r.Open > 0 || len(r.Left) > 0:
		return &exitError{code: exitFailed}
	case len(r.Files) > 0 && !r.Written:
		return &exitError{code: exitChanges}
	}
	return nil
}
