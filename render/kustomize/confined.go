package kustomize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/plumbline-dev/plumbline/confine"
)

// JobName identifies Job.
const JobName = "kustomization"

// longestError limits how much of kustomize's message a child sends, in bytes.
const longestError = 4 << 10

// Job builds a kustomization in a child process. It requests the files that it needs from the parent, one by one.
func Job(t *confine.Talk) error {
	message, err := t.Receive()
	if err != nil {
		return err
	}
	warnings, err := decodeWork(message).build(&locked{fsys: &remoteFiles{talk: t, known: map[string]*remoteFile{}}}, func(r Resource) error {
		return t.Send(map[string]any{"object": r.Object, "file": r.File, "local": r.Local})
	})
	var failed *BuildError
	switch {
	case err == nil:
		return t.Send(map[string]any{"done": true, "warnings": texts(warnings)})
	case errors.As(err, &failed):
		text := failed.Err.Error()
		return t.Send(map[string]any{"failed": text[:min(len(text), longestError)]})
	}
	return err
}

// confined builds in a child process.
func (w work) confined(ctx context.Context, runner *confine.Runner, files *locked) (resources []Resource, warnings []string, err error) {
	what := "building " + w.file
	err = runner.Run(ctx, what, JobName, func(t *confine.Talk) error {
		if err := t.Send(w.encode()); err != nil {
			return err
		}
		for {
			message, err := t.Receive()
			if err != nil {
				return err
			}
			said, _ := message.(map[string]any)
			switch {
			case said["object"] != nil:
				object, _ := said["object"].(map[string]any)
				file, _ := said["file"].(string)
				local, _ := said["local"].(bool)
				resources = append(resources, Resource{Object: object, File: file, Local: local})
			case said["ask"] != nil:
				if err := t.Send(serve(files, said)); err != nil {
					return err
				}
				if files.failure != nil {
					return files.failure // the build cannot succeed
				}
			case said["failed"] != nil:
				return &BuildError{File: w.file, Err: fmt.Errorf("%v", said["failed"])}
			case said["done"] != nil:
				list, _ := said["warnings"].([]any)
				for _, one := range list[:min(len(list), maxUnmatched)] {
					warnings = append(warnings, fmt.Sprint(one))
				}
				return nil
			default:
				return &confine.ChildError{What: what, Err: errors.New("the child process says nothing that is understood")}
			}
		}
	})
	return resources, warnings, err
}

// maxUnmatched limits the warnings that are accepted from a child.
const maxUnmatched = 20

// texts converts warnings for a message.
func texts(warnings []string) []any {
	list := make([]any, 0, len(warnings))
	for _, one := range warnings {
		list = append(list, one)
	}
	return list
}

func (w work) encode() map[string]any {
	return map[string]any{
		"folder": w.folder, "file": w.file, "text": string(w.text), "ownTypes": w.ownTypes, "keepOrigins": w.keepOrigins, "renamed": w.renamed,
	}
}

func decodeWork(message any) work {
	var w work
	said, _ := message.(map[string]any)
	w.folder, _ = said["folder"].(string)
	w.file, _ = said["file"].(string)
	text, _ := said["text"].(string)
	w.text = []byte(text)
	w.ownTypes, _ = said["ownTypes"].(bool)
	w.keepOrigins, _ = said["keepOrigins"].(bool)
	w.renamed, _ = said["renamed"].(bool)
	return w
}

// The requests of a child.
const (
	askStat = "stat"
	askRead = "read"
	askList = "list"
)

// serve answers a child's request for a file: what the name is, and its content. The reason why something cannot be
// read is not sent, but kept in the failure of files.
func serve(files *locked, said map[string]any) map[string]any {
	ask, _ := said["ask"].(string)
	name, _ := said["name"].(string)
	if !fs.ValidPath(name) {
		return map[string]any{}
	}
	info, err := files.stat(name)
	if err != nil {
		return map[string]any{}
	}
	answer := map[string]any{"there": true, "folder": info.IsDir()}
	switch {
	case ask == askRead && !info.IsDir():
		data, err := files.ReadFile(name)
		if err != nil {
			return map[string]any{}
		}
		answer["data"] = string(data)
	case ask == askList && info.IsDir():
		names, err := files.ReadDir(name)
		if err != nil {
			return map[string]any{}
		}
		list := make([]any, 0, len(names))
		for _, one := range names {
			list = append(list, one)
		}
		answer["names"] = list
	}
	return answer
}
