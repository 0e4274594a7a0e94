package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const checkTimeout = 60 * time.Second

// What check says of a history that is not fine; wrapped with the details.
var (
	errNotLinearizable = errors.New("not linearizable")
	errNoVerdict       = errors.New("no verdict in time")
)

// check judges one history key by key; a key that cannot be judged in time is an error, too.
func check(r rules, history []porcupine.Operation) (witness, error) {
	var seen witness
	model := r.model()
	for _, part := range byKey(history) {
		result, info := porcupine.CheckOperationsVerbose(model, part, checkTimeout)
		if result == porcupine.Ok {
			if r.restarts {
				seen.add(countAnswers(part))
			} else {
				seen.add(r.replay(info.PartialLinearizationsOperations()[0][0]))
			}
			continue
		}
		key := part[0].Input.(*input).key
		if result == porcupine.Unknown {
			return seen, fmt.Errorf("key %d, %d operations: %w", key, len(part), errNoVerdict)
		}
		return seen, fmt.Errorf("key %d, %d operations: %w%s", key, len(part), errNotLinearizable,
			draw(model, info))
	}
	return seen, nil
}

// draw leaves a picture of the failed history for whoever has to understand it.
func draw(model porcupine.Model, info porcupine.LinearizationInfo) string {
	file, err := os.CreateTemp("", "history-*.html")
	if err != nil {
		return ""
	}
	defer file.Close()
	if porcupine.Visualize(model, info, file) != nil {
		return ""
	}
	return "; picture: " + file.Name()
}
