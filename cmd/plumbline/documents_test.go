package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/plumbline-dev/plumbline/internal/markdown"
)

// TestTheReferenceIsFresh: the pages match the commands.
func TestTheReferenceIsFresh(t *testing.T) {
	made, kept := t.TempDir(), "../../docs/reference/cli"
	if got := plumbline(t, "reference", "markdown", made); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(filesIn(t, made), filesIn(t, kept)); diff != "" {
		t.Errorf("docs/reference/cli is stale: make generate (-made +kept):\n%s", diff)
	}
}

// TestManPages: there is one for each command, for release archives.
func TestManPages(t *testing.T) {
	made := t.TempDir()
	if got := plumbline(t, "reference", "man", made); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	pages := filesIn(t, made)
	if page := pages["plumbline-plan.1"]; !strings.Contains(page, `.TH "PLUMBLINE-PLAN" "1"`) || !strings.Contains(page, `\fB--against\fP`) {
		t.Errorf("the page of plan is %q", page)
	}
	if page, hidden := pages["plumbline-reference.1"]; hidden {
		t.Errorf("a command that is hidden has a page: %s", page)
	}
}

func TestTheReferenceHasTwoForms(t *testing.T) {
	if got := plumbline(t, "reference", "html", t.TempDir()); got.code != 1 || !strings.Contains(got.err, "want markdown or man") {
		t.Errorf("%+v", got)
	}
}

// filesIn returns the files of a folder, by name.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(dir + "/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files in %s: %v", len(names), dir, err)
	}
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(text)
	}
	return files
}

// calls returns the command lines of plumbline in a script, with an x for what only a shell can expand.
func calls(script string) (found [][]string, err error) {
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(parsed, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, word := range call.Args {
			words = append(words, wordOf(word))
		}
		if words[0] == "kubectl" && len(words) > 1 {
			words = words[1:]
		}
		if filepath.Base(words[0]) == "plumbline" {
			found = append(found, words[1:])
		}
		return true
	})
	return found, nil
}

// wordOf returns a word as a command receives it.
func wordOf(word *syntax.Word) string {
	if lit := word.Lit(); lit != "" {
		return lit
	}
	var text bytes.Buffer
	for _, part := range word.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			text.WriteString(part.Value)
		case *syntax.SglQuoted:
			text.WriteString(part.Value)
		case *syntax.DblQuoted:
			text.WriteString(wordOf(&syntax.Word{Parts: part.Parts}))
		default:
			text.WriteString("x")
		}
	}
	return text.String()
}

// parse checks the arguments of a command without running it.
func parse(args []string) error {
	root := newRootCommand()
	root.InitDefaultCompletionCmd(args...)
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	for _, flag := range []string{"help", "version"} {
		if asked, err := cmd.Flags().GetBool(flag); err == nil && asked {
			return nil
		}
	}
	if !cmd.Runnable() {
		return errors.New("it is no command by itself")
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestCommandsInDocumentsParse: the commands, flags and numbers of arguments exist.
func TestCommandsInDocumentsParse(t *testing.T) {
	all, err := markdown.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for file, document := range all {
		for _, block := range document.Blocks {
			text := block.Text
			switch block.Language {
			case "console": // only the text after the prompt is typed
				text = typedText(text)
			case "sh":
			default:
				continue
			}
			found, err := calls(text)
			if err != nil {
				t.Errorf("%s:%d: no shell reads it: %v", file, block.Line, err)
			}
			for _, args := range found {
				looked++
				if err := parse(args); err != nil {
					t.Errorf("%s:%d: plumbline %s: %v", file, block.Line, strings.Join(args, " "), err)
				}
			}
		}
	}
	if looked < 30 {
		t.Errorf("%d commands were looked at", looked)
	}
}

func typedText(text string) string {
	var lines strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if command, found := strings.CutPrefix(line, "$ "); found {
			fmt.Fprintln(&lines, command)
		}
	}
	return lines.String()
}

func TestWrongCommandsAreFound(t *testing.T) {
	for script, right := range map[string]bool{
		"plumbline status prod --watch":                                  true,
		"kubectl plumbline get -A":                                       true,
		"FOO=1 plumbline plan ./a --against \"$SYNC\" | tee plan.md":     true,
		"plumbline version --output=json":                                true,
		"plumbline status prod --wach":                                   false,
		"plumbline statsu prod":                                          false,
		"plumbline suspend":                                              false,
		"if true; then plumbline reconcile x --wait --timeout=1m; fi":    false,
		"x=$(plumbline get prod -o jsonpath='{.status}') && echo \"$x\"": true,
	} {
		found, err := calls(script)
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %d calls: %v", script, len(found), err)
			continue
		}
		if err := parse(found[0]); (err == nil) != right {
			t.Errorf("%s: %v", script, err)
		}
	}
}
