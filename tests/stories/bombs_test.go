package stories_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// bombs are small commits that are expensive to read, by name: each writes files below a folder of the clone.
func bombs() map[string]func(s *story, folder string) error {
	return map[string]func(s *story, folder string) error{
		"aliases": func(s *story, folder string) error {
			if err := s.repo.Write(filepath.Join(folder, "kustomization.yaml"), []byte("namePrefix: a-\nresources: [a.yaml]\n")); err != nil {
				return err
			}
			return s.repo.Write(filepath.Join(folder, "a.yaml"), []byte("a: 1\na: 2\n"+laughs()))
		},
		"brackets": func(s *story, folder string) error {
			return s.repo.Write(filepath.Join(folder, "a.yaml"), bytes.Repeat([]byte("[],"), 300_000))
		},
		"large": func(s *story, folder string) error {
			return s.repo.Write(filepath.Join(folder, "a.yaml"), bytes.Repeat([]byte("[]"), 8<<20))
		},
		"kustomizations": kustomizationBomb,
		"archives": func(s *story, folder string) error {
			zeros := make([]byte, 4<<20)
			for range 3 {
				var err error
				if zeros, err = chartOf(map[string][]byte{"templates/zeros.yaml": zeros}); err != nil {
					return err
				}
			}
			return writeCharts(s, folder, map[string][]byte{"charts/a.tgz": zeros, "charts/b.tgz": zeros})
		},
		"loop": func(s *story, folder string) error {
			return writeCharts(s, folder, map[string][]byte{"templates/a.yaml": []byte(
				"{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}",
			)})
		},
		"hoard": func(s *story, folder string) error {
			return writeCharts(s, folder, map[string][]byte{"templates/a.yaml": []byte(
				`{{ $s := "x" }}{{ range until 40 }}{{ $s = cat $s $s }}{{ end }}`,
			)})
		},
	}
}

// laughs returns the billion laughs in YAML.
func laughs() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return text
}

// kustomizationBomb writes a base that two kustomizations use, which two each use, and so on.
func kustomizationBomb(s *story, folder string) error {
	const levels = 8
	files := map[string]string{"kustomization.yaml": "resources: [a0, b0]\n"}
	for level := range levels {
		draws := fmt.Sprintf("resources: [../a%d, ../b%d]\n", level+1, level+1)
		if level == levels-1 {
			draws = "resources: [../base.yaml]\n"
		}
		for _, one := range []string{"a", "b"} {
			files[fmt.Sprintf("%s%d/kustomization.yaml", one, level)] = "namePrefix: " + one + "-\n" + draws
		}
	}
	for i := range 80 {
		files["base.yaml"] += fmt.Sprintf("---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a%d}\n", i)
	}
	for name, text := range files {
		if err := s.repo.Write(filepath.Join(folder, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// writeCharts writes both charts into a folder, the main one with additional files.
func writeCharts(s *story, folder string, more map[string][]byte) error {
	archive, err := chartOf(more)
	if err != nil {
		return err
	}
	return s.repo.Write(filepath.Join(folder, "karpenter-"+binaries.KarpenterVersion+".tgz"), archive)
}

// chartOf packs a chart.
func chartOf(more map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	folder := tar.NewWriter(zipped)
	files := map[string][]byte{"Chart.yaml": []byte("apiVersion: v2\nname: karpenter\nversion: " + binaries.KarpenterVersion + "\n"), "values.yaml": []byte("{}\n")}
	for name, content := range more {
		files[name] = content
	}
	for name, content := range files {
		if err := folder.WriteHeader(&tar.Header{Name: "karpenter/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := folder.Write(content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(folder.Close(), zipped.Close())
	return packed.Bytes(), err
}

// bombCommand is `bomb NAME FOLDER`; `bomb tree FOLDER` and `bomb objects BRANCH`, which push immediately; and `bomb
// index`, which serves one and sets $INDEX.
func (s *story) bombCommand(ts *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "index":
		s.indexBomb(ts)
		return nil
	case len(args) != 2:
		return errors.New("usage: bomb NAME FOLDER | bomb objects BRANCH | bomb index")
	case args[0] == "tree":
		return s.treeBomb(args[1])
	case args[0] == "objects":
		return s.objectsBomb(args[1])
	}
	write, ok := bombs()[args[0]]
	if !ok {
		return fmt.Errorf("no bomb is called %q", args[0])
	}
	return write(s, args[1])
}

// treeBomb pushes a commit with a folder in the root that contains two folders, each with the same two folders in it,
// and so on: about thirty objects. No clone could hold its files: the next push of the clone reverts it.
func (s *story) treeBomb(folder string) error {
	tree, err := s.git("", "rev-parse", "HEAD:"+folder)
	if err != nil {
		return err
	}
	original := tree
	for range 30 {
		if tree, err = s.git(fmt.Sprintf("040000 tree %s\ta\n040000 tree %s\tb\n", tree, tree), "mktree"); err != nil {
			return err
		}
	}
	inner, err := s.git("", "ls-tree", original)
	if err != nil {
		return err
	}
	if tree, err = s.git(inner+"\n040000 tree "+tree+"\tbomb\n", "mktree"); err != nil {
		return err
	}
	root, err := s.git("", "ls-tree", "HEAD")
	if err != nil {
		return err
	}
	if root, err = s.git(strings.Replace(root, original+"\t"+folder, tree+"\t"+folder, 1)+"\n", "mktree"); err != nil {
		return err
	}
	commit, err := s.git("", "commit-tree", "-p", "HEAD", "-m", "a tree that doubles", root)
	if err != nil {
		return err
	}
	if _, err := s.git("", "update-ref", "HEAD", commit); err != nil {
		return err
	}
	_, err = s.git("", "push", "--quiet", "origin", "HEAD")
	return err
}

// git runs git in the clone, with an input.
func (s *story) git(input string, args ...string) (string, error) {
	command := exec.CommandContext(s.ctx, "git", args...)
	command.Dir, command.Env, command.Stdin = s.repo.Clone, append(os.Environ(), s.repo.Environment()...), strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
