package karpenter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The logs of a pod's container in the pod's folder, for the current run and for the one before the last restart.
const (
	logFile      = "log"
	previousFile = "log.previous"
)

// How much of a log a kubelet uses as the message of a crash.
const (
	messageBytes = 2048
	messageLines = 80
)

// podDir returns the folder of a pod.
func podDir(dir, namespace, name string) string {
	return filepath.Join(dir, namespace+"_"+name)
}

// turnLog renames the log of the last run.
func turnLog(dir string) error {
	err := os.Rename(filepath.Join(dir, logFile), filepath.Join(dir, previousFile))
	if errors.Is(err, fs.ErrNotExist) { // it is the first run
		return nil
	}
	return err
}

// tail returns the last lines of a log.
func tail(log []byte, lines int) []byte {
	all := slices.Collect(bytes.Lines(log))
	return bytes.Join(all[max(0, len(all)-lines):], nil)
}

// terminationMessage returns the end of the log, if the pod asks for that.
func (w *worker) terminationMessage(code int) string {
	if code == 0 || w.pod.Spec.Containers[0].TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	log, err := os.ReadFile(filepath.Join(w.dir(), logFile))
	if err != nil {
		return ""
	}
	log = tail(log, messageLines)
	return string(log[max(0, len(log)-messageBytes):])
}

// Logs serves the logs of the pods, like the kubelet's server.
type Logs struct {
	// Port is the kubelet's port on 127.0.0.1.
	Port int

	server *httptest.Server
}

// ServeLogs serves the logs of the pods of a Supervisor with the same folder.
func ServeLogs(dir string) (*Logs, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		serveLog(w, r, podDir(dir, r.PathValue("namespace"), r.PathValue("pod")))
	})
	server := httptest.NewTLSServer(mux) // the certificate is not verified
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("read the port of %s: %w", server.URL, err)
	}
	return &Logs{Port: number, server: server}, nil
}

// Close stops the server.
func (l *Logs) Close() { l.server.Close() }

// serveLog supports the parameters of `kubectl logs` for past lines.
func serveLog(w http.ResponseWriter, r *http.Request, dir string) {
	query := r.URL.Query()
	if query.Get("follow") == "true" {
		http.Error(w, "the sandbox's kubelet does not follow logs", http.StatusNotImplemented)
		return
	}
	file := logFile
	if query.Get("previous") == "true" {
		file = previousFile
	}
	log, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		http.Error(w, fmt.Sprintf("container %q in pod %q has no such log", r.PathValue("container"), r.PathValue("pod")), http.StatusBadRequest)
		return
	}
	lines, err := number(query.Get("tailLines"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	size, err := number(query.Get("limitBytes"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	log = tail(log, lines)
	_, _ = w.Write(log[:min(size, len(log))])
}

// number parses a limit; an empty text means no limit.
func number(text string) (int, error) {
	if text == "" {
		return math.MaxInt, nil
	}
	return strconv.Atoi(text)
}
