package awssim

import (
	"encoding/json"
	"net/http"
)

// adminPrefix is the path of the admin endpoint. AWS has no path like it.
const adminPrefix = "/_sandbox/"

// adminHandler serves, all in JSON:
//
//	GET    state                       State
//	GET    left?cluster=               Left
//	GET    calls[?service=&action=]    []Call
//	DELETE calls                       deletes them
//	GET    faults                      []Fault
//	POST   faults                      Fault in, Fault with its ID out
//	DELETE faults[/<id>]               ends one, or all
//	POST   instances/<id>/terminate    terminates an instance manually
//	POST   instances/<id>/interrupt    reclaims a spot instance, after a warning
//	POST   instances/<id>/stop         stops an instance manually; start starts it
//	POST   instances/<id>/protect      rejects calls that terminate it; unprotect ends that
//	POST   zones/<zone>/outage         disrupts a zone
//	DELETE zones/<zone>/outage         ends that
//	PUT    clusters/<name>/status      {"status": "UPDATING"}: what EKS reports for a cluster
//	GET    answers                     Answers
//	PUT    answers                     Answers in, omitted fields get their defaults
//	POST   shortages                   Shortage in: launches fail for lack of capacity
//	DELETE shortages                   ends all of them
func (s *Simulator) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sandbox/state", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, s.State())
	})
	mux.HandleFunc("GET /_sandbox/left", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, http.StatusOK, s.Left(r.FormValue("cluster")))
	})
	mux.HandleFunc("GET /_sandbox/calls", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, http.StatusOK, s.Calls(r.FormValue("service"), r.FormValue("action")))
	})
	mux.HandleFunc("DELETE /_sandbox/calls", func(w http.ResponseWriter, _ *http.Request) {
		s.ForgetCalls()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, s.Faults())
	})
	mux.HandleFunc("POST /_sandbox/faults", s.postFault)
	mux.HandleFunc("DELETE /_sandbox/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.RemoveFaults("")
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /_sandbox/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		if s.RemoveFaults(r.PathValue("id")) == 0 {
			answerError(w, http.StatusNotFound, "there is no fault "+r.PathValue("id"))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /_sandbox/instances/{id}/terminate", onInstance(s.Terminate))
	mux.HandleFunc("POST /_sandbox/instances/{id}/interrupt", onInstance(s.InterruptSpot))
	mux.HandleFunc("POST /_sandbox/instances/{id}/stop", onInstance(s.Stop))
	mux.HandleFunc("POST /_sandbox/instances/{id}/start", onInstance(s.Start))
	mux.HandleFunc("POST /_sandbox/instances/{id}/protect", onInstance(func(id string) error { return s.Protect(id, true) }))
	mux.HandleFunc("POST /_sandbox/instances/{id}/unprotect", onInstance(func(id string) error { return s.Protect(id, false) }))
	s.handleAnswers(mux)
	mux.HandleFunc("POST /_sandbox/shortages", s.postShortage)
	mux.HandleFunc("DELETE /_sandbox/shortages", func(w http.ResponseWriter, _ *http.Request) {
		s.Restock()
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// handleAnswers adds the paths that change how the services respond, besides faults.
func (s *Simulator) handleAnswers(mux *http.ServeMux) {
	outage := func(begins bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { answerChange(w, s.Outage(r.PathValue("zone"), begins)) }
	}
	mux.HandleFunc("POST /_sandbox/zones/{zone}/outage", outage(true))
	mux.HandleFunc("DELETE /_sandbox/zones/{zone}/outage", outage(false))
	mux.HandleFunc("PUT /_sandbox/clusters/{name}/status", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Status string }
		if readJSON(w, r, &in) {
			answerChange(w, s.SetClusterStatus(r.PathValue("name"), in.Status))
		}
	})
	mux.HandleFunc("GET /_sandbox/answers", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, s.Answers())
	})
	mux.HandleFunc("PUT /_sandbox/answers", func(w http.ResponseWriter, r *http.Request) {
		answers := DefaultAnswers()
		if readJSON(w, r, &answers) {
			answerChange(w, s.SetAnswers(answers))
		}
	})
}

// answerChange responds that a change was made, or why not.
func answerChange(w http.ResponseWriter, err error) {
	if err != nil {
		answerError(w, http.StatusBadRequest, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// onInstance responds with the result of a verb on the instance in the path.
func onInstance(do func(instanceID string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(r.PathValue("id")); err != nil {
			answerError(w, http.StatusNotFound, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Simulator) postShortage(w http.ResponseWriter, r *http.Request) {
	var short Shortage
	if !readJSON(w, r, &short) {
		return
	}
	answerChange(w, s.RunShort(short))
}

// readJSON decodes a request's body, or responds with the error.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		answerError(w, http.StatusBadRequest, "reading the request: "+err.Error())
		return false
	}
	return true
}

func (s *Simulator) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	if !readJSON(w, r, &f) {
		return
	}
	added, err := s.AddFault(f)
	if err != nil {
		answerError(w, http.StatusBadRequest, err.Error())
		return
	}
	answerJSON(w, http.StatusCreated, added)
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	content, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		answerError(w, http.StatusInternalServerError, "writing the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that has disconnected needs no response.
	_, _ = w.Write(append(content, '\n'))
}

func answerError(w http.ResponseWriter, status int, message string) {
	answerJSON(w, status, map[string]string{"error": message})
}
