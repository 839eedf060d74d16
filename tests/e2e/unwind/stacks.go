// Goroutines that make the runtime work on the stacks of its threads: they allocate, grow their
// stacks, wait for each other and for timers. Each is begun by a function of its own, which is on its
// stack and on no other's. Argument: seconds.
package main

import (
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

type tree struct {
	left, right *tree
	room        [4]int
}

var sink [8]int

//go:noinline
func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{left: grow(depth - 1), right: grow(depth - 1)}
}

func allocates(end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for time.Now().Before(end) {
		sink[0] += grow(10).room[0] + len(make([]byte, 1<<16))
	}
}

func sorts(end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for seed := uint32(1); time.Now().Before(end); {
		numbers := make([]int, 20000)
		for i := range numbers {
			seed = seed*1664525 + 1013904223
			numbers[i] = int(seed >> 8)
		}
		sort.Ints(numbers)
		sink[1] += numbers[0]
	}
}

func counts(end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for time.Now().Before(end) {
		words := map[string]int{}
		for i := 0; i < 5000; i++ {
			words[strconv.Itoa(i*7%1000)] += i
		}
		sink[2] += len(words)
	}
}

func talks(to chan<- int, end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for i := 0; i%100 != 0 || time.Now().Before(end); i++ {
		to <- i
	}
	close(to)
}

func listens(from <-chan int, done *sync.WaitGroup) {
	defer done.Done()
	for n := range from {
		sink[3] += n
	}
}

func waits(end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for time.Now().Before(end) {
		timer := time.NewTimer(20 * time.Microsecond)
		for i := 0; i < 30; i++ {
			sink[4] += time.Now().Nanosecond()
		}
		<-timer.C
	}
}

//go:noinline
func deep(depth int) int {
	var room [64]int
	if depth == 0 {
		return 0
	}
	room[depth%64] = depth
	return deep(depth-1) + room[(depth+1)%64]
}

func digs(done *sync.WaitGroup) {
	defer done.Done()
	sink[5] += deep(40)
}

func sends(end time.Time, done *sync.WaitGroup) {
	defer done.Done()
	for time.Now().Before(end) {
		var all sync.WaitGroup
		all.Add(4)
		for i := 0; i < 4; i++ {
			go digs(&all)
		}
		all.Wait()
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	line := make(chan int)
	var done sync.WaitGroup
	done.Add(7)
	go allocates(end, &done)
	go sorts(end, &done)
	go counts(end, &done)
	go talks(line, end, &done)
	go listens(line, &done)
	go waits(end, &done)
	go sends(end, &done)
	done.Wait()
}
