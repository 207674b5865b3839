r"""The rules of docs/scoring.md: wrong answers that a reader of expressions takes for right, and their mirror images.

`#1` and `#2` in a template are two different numbers; each template is judged with some such pairs.
"""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from dphrl.scoring import MathScorer, Verdict
from dphrl.scoring.math.objections import RULES

FILLINGS = 4

# By kind: templates of "answer ## gold" that are wrong, and that are right.
WRONG = {
    "equation": r"""
        0=1 ## \log_6(216)=3
        0=1 ## x^2-#1=0
        0=1 ## #1
        1=1 ## #1
        min at x=#1 ## min at x=#2
        \log_6(216)=7 ## \log_6(216)=3
        x^2+12#1=0 ## x^2+12#2=0
        \emptyset ## R^{2}=0.05 indicates that the model explains only 5 \% of it, so it will not have much power
        #1 ## x^2-#1=0
        #1 ## x+2y=#1
    """,
    "count": r"""
        #1 ## #1 mph, #2 mph
        #1 ## #1, #2
        #1,#1 ## #1
        9_{5} ## 9
        #1\text{ cm}, #2\text{ cm} ## #1
        #1\text{ cm or }#2\text{ cm} ## #1
        #1 \qquad \text{(or six)} ## #1
        #1\text{ or any other number} ## #1
        x=#1 \vee x=#2 ## #2
        x=#1 \lor x=#2 ## #1
        #1<x<1#1 ## #1,1#1
        x \in (#1,1#1) ## #1,1#1
        #1,1#1 ## #1<x<1#1
        \sqrt{#1},2 ## 2\,\sqrt{#1}
        x,#1 ## #1\,x
        #1 ## \pm #1
        \pm #1 ## #1
        1,2,2 ## 1,2
        1,1,2 ## 1,2,2
        \{2,2\} ## \{2\}
        \sqrt{2},\sqrt{2} ## \sqrt{2}
        \sqrt{2},\sqrt{2},x ## \sqrt{2},x,x
    """,
    "words": r"""
        \text{It cannot be }#1 ## #1
        \text{Approx: }#1 ## #1
        #1\text{ is ruled out} ## #1
        #1\text{ pi} ## #1
        seat ## east
        #1 dozen eggs ## #1
        #1 probably ## #1
        #1 more than x ## #1
        \text{not the answer}=#1 ## #1
        \text{The answer is not }#1 ## #1
        \text{Maybe it is }#1 ## #1
        \text{My guess: }#1 ## #1
        \text{probably}=#1 ## #1
        y=#2 for x=#1 ## #1
        y=#2 when x=#1 ## #1
        f=#2. Area=#1 ## #1
        #1\text{ dozens} ## #1
        #1\text{ squared} ## #1
        #1\text{ isn't it} ## #1
        #1\text{ undefined} ## #1
        #1\text{ish} ## #1
        #1\text{x} ## #1
        #1\text{ apples, not }#2 ## #1
        #1\text{ at least} ## #1
        #1\text{ (I think)} ## #1
        #1 + about #2 ## #1
        #1\text{ years ago} ## #1\text{ years from now}
        #1\text{ (six)} ## #1
        (#1\text{ or six}) ## #1
    """,
    "quantities": r"""
        #1\text{ hours }3#1\text{ minutes} ## #1\text{ hours }3#2\text{ minutes}
        #1\text{ hours }#2\text{ minutes} ## #1
        #1 ft 3 in ## #1 ft 8 in
        #1 dollars 50 cents ## 75
        #1\text{ apples }#2\text{ pears} ## #1
        #1\text{ red}, #2\text{ blue} ## #2\text{ red}, #1\text{ blue}
        #1 n, #2 d ## #2 n, #1 d
        #1 cm + #2 cm ## #1
    """,
    "units": r"""
        #1\text{ kg} ## #1\%
        #1\text{ points lower} ## #1\text{ points higher}
        #1\text{ percent less} ## #1\text{ percent more}
        #1\text{ km south} ## #1\text{ km}\text{ north}
        #1\text{ red apples} ## #1\text{ apples}
        #1\text{ km} ## #1\text{ km north}
        #1\text{ nm} ## #1\text{ mm}
        #1\text{ K} ## #1000
        \$#1\text{M} ## #1
        #1\text{ millions} ## #1
        #1\,\mathrm{m/s^2} ## #1\text{ m/s}^3
        #1 hours ## #1 minutes
        #1 northward west ## #1\text{ east}
        \$#1/\text{hour} ## #1\text{ euros}/\text{hour}
        \$#1 ## #1\text{ cents}
        #1\text{ p.m.} ## #1\text{ a.m.}
        #1 cm^7 ## #1 cm^2
        #1\text{ cm}^3 ## #1\text{ cm}^2
        #1\text{k} ## #1
        #1 ## #1\text{ million}
        #1' ## #1
        #1'' ## #1'
        #1^\circ ## #1'
        #1^\circ\text{C} ## #1^\circ\text{F}
        x \equiv #1 \pmod{100} ## x \equiv #1 \pmod{101}
        #1\,\mathrm{m\,s^{-1}} ## #1\,\mathrm{m\,s^{-2}}
    """,
    "relation": r"""
        #1\approx #2 ## #1
        #1\approx #2 ## #2
        #1\equiv #2 ## #1
        #1\to #2 ## #1
        #1=#2 ## #1
        #1=#2 ## #2
        #1+#2=#1 ## #1
        x=#1=#2 ## #2
        #1==#2 ## #2
        [0,1)=[5,#1) ## [5,#1)
        #1:=#2 ## #2
        #1\neq #2 ## #1
        #1<#2 ## #1
        #1.3 ## \frac{40}{3}\approx #1.33
    """,
    "restated": r"""
        \sum_{k=1}^{#1} 1 ## #1
        \int_0^{#1} 1\,dx ## #1
        \lim_{x\to #1} x ## #1
        \prod_{k=#1}^{#1} k ## #1
        \frac{d}{dx} #1x ## #1
        \gcd(#1,#1) ## #1
        \det\begin{pmatrix}#1&0\\0&1\end{pmatrix} ## #1
        \begin{vmatrix}#1&0\\0&1\end{vmatrix} ## #1
        x=\sum_{k=1}^{#1} 1 ## x=#1
        \sum_{k=1}^n k ## \frac{n(n+1)}{2}
        \sum_{k=1}^{#1} 1=#2 ## #1
    """,
    "integers": r"""
        k \in \mathbb{Z} ## \frac{\pi}{#1}+k\pi, k \in \mathbb{Z}
        \frac{\pi}{#1} ## \frac{\pi}{#1}+k\pi, k \in \mathbb{Z}
        \frac{\pi}{#1}+2k\pi, k \in \mathbb{Z} ## \frac{\pi}{#1}+k\pi, k \in \mathbb{Z}
        \frac{\pi}{#1}+k\pi, k \in \mathbb{N} ## \frac{\pi}{#1}+k\pi
        #1, k \in \mathbb{Z} ## #1
    """,
    "percent": r"""
        33.33\% ## \frac{1}{3}
        33\frac{1}{3} ## \frac{1}{3}
        #100\% ## #1\%
    """,
    "solutions": r"""
        2x=#1 ## #1
        x^2=#1 ## #1
        \frac1x=#1 ## #1
        \sqrt x=#1 ## #1
        abs(x)=#1 ## #1
        (x-#1)(x-#2)=0 ## #1
    """,
    "names": r"""
        a_{21}=#1 ## a_{12}=#1
        \vec{BA}=#1 ## \vec{AB}=#1
        \frac{dx}{dy}=#1 ## \frac{dy}{dx}=#1
        \textbf{(B) }#1 ## \textbf{(A) }#1
        \textbf{(B) }#1 ## \text{(C)}
        \textbf{(B) }#1 ## \textbf{(B) }#2
        (y,x)=(#1,#2) ## (x,y)=(#1,#2)
        \max=#1 ## \min=#1
        \text{boys}=#1 ## \text{girls}=#1
        \text{I}=#1 ## \text{II}=#1
        y_{1}=#1x ## y_{2}=#1x
        y_1=#1x, y_2=x ## $y_1=#2x$\n$y_2=x$
        f(#1)=5 ## f(#2)=5
        g(#1)=7 ## f(#1)=7
        y=#1 ## x=#1
        f'(#1)=7 ## f(#1)=7
        f^{-1}(x)=x-#1 ## f(x)=x-#1
        \angle A=#1 ## \angle B=#1
        a_1=#1 ## a_2=#1
        AB=#1 ## AC=#1
    """,
    "marks": r"""
        f'(x) ## f(x)
        y'' ## y'
        A^T ## A
        A \land B ## A \lor B
        A \leftarrow B ## A \rightarrow B
        \pi ## \Pi
    """,
    "brackets": r"""
        y=#1,x=#2 ## (#1,#2)
        x=#1,x=#2 ## (#1,#2)
        #1,#2 ## (#1,#2]
        [#1,#2) ## #1,#2
        x=#2,y=#1 ## (#1,#2)
        (#1,#2) ## \{#1,#2\}
        \{#1,#2\} ## (#1,#2)
        (#2,#1) ## #1,#2
        \{#1,\{#2\}\} ## \{#1,#2\}
        \{\emptyset\} ## \emptyset
        #1;#2 ## (#1,#2)
        [#1,#2] ## (#1,#2)
        [7#1,#1] ## [7#2,#2]
        (2,1) ## (1,2)
        (-\infty, 2] ## (-\infty, 2)
    """,
    "exact": r"""
        \sqrt{10^{40}+#1} ## 10^{20}
        (10^{20}+#1)x ## 10^{20}x
        10^{20}+#1 ## 10^{20}+#2
        \frac{10^{20}+#1}{7} ## \frac{10^{20}+#2}{7}
        1E5_{16} ## 100000_{16}
        \sin #1 ## \sin #1^\circ
    """,
    "hidden": r"""
        \phantom{#1} ## #1
        \boxed{#1}6 ## #1
        \cancel{#1}#2 ## #1
    """,
    "tautology": r"""
        x=x ## y=x
        x=x ## x^2-#1=0
        #1x=#1x ## x=#1
        x+#1=x+#1 ## x+y=#1
        f(x)=f(x) ## f(x)=#1x
        y=#1x ## N=N
    """,
    "adjacent": r"""
        (#1)(4) ## 4+#1
        (#1)4 ## 4+#1
        5 6 ## 11
        5{6} ## 11
        #1~#2 ## #1#2
        5 (6) ## 11
        5(6) ## 11
    """,
    "inequalities": r"""
        #1<x!!\\ ## x>#1
        x>#1\\x>#1\\ ## x>#1
        x<#1 \text{ and } x>1#1 ## (-\infty,#1)\cup(1#1,\infty)
        x<#1 \text{ and } x>1#1 ## x<#1 \text{ or } x>1#1
        x<#1 \text{ or } x>1#1 ## x<#1 \text{ and } x>1#1
        x>#1 ## y>#1
        x \ge #1 ## x>#1
    """,
    "letters": r"""
        c ## C
        2a ## a+A
        0 ## \frac{(M-m)g}{M+m}
        \frac{Gm^2}{r^2} ## \frac{GMm}{r^2}
        Gmm ## GMm
        \frac{r}{R} ## \frac{R}{r}
        n^n ## n^N
        1 ## \binom Nn
        0 ## \lambda-\Lambda
        (#1m,M) ## (#1M,m)
        M=#1m ## m=#1M
    """,
    "roots": r"""
        \sqrt{a+b} ## \sqrt{a}+\sqrt{b}
        \ln(a+b) ## \ln a+\ln b
        \sqrt{a^2b} ## b\sqrt{a}
        |x-#1| ## x-#1
    """,
    "choices": r"""
        \text{A: cannot be true} ## A
        (B) Some text ## A
        (A) Some text (B) another text ## A
        A: maybe this ## A
    """,
    "sets": r"""
        \{1,2\}\cup\{3\} ## \{1,2\}
        \{1,2,3\}\setminus\{3\} ## \{1,2,3\}
        \{1,2\}\cap\{2,3\} ## \{1,2,3\}
    """,
    "steps": r"""
        x=#1 \iff x=#2 ## #2
        x=#1 \implies x=#2 ## #2
    """,
    "Unicode": """
        \u221a13 ## 3
    """,
    "bases": r"""
        #1_1 ## #1
        #1_{a} ## #1
        1#1_3 ## 1#1_4
        2516_5 ## 2516_8
        1101_2 ## 1101_{10}
        1358 ## 2516_8
        A1_{16} ## A1_{12}
        x=12_5 ## 12_6
        12_6, 13_5 ## 12_5, 13_6
        4_5+1 ## 4_6+1
        10C_2 ## 45
    """,
    "numbers": r"""
        1/0 ## 1
        1e999999999 ## 1
        2 + 1e999999999 ## 1
        1 2/3 ## 4
        3\mathrm{i} ## 3
        0.33 ## \frac{1}{3}
        no ## \text{yes}
        5:30 PM ## \text{4:30 p.m.}
    """,
    "tiny numbers": r"""
        0 ## 1e-9
        0 ## \frac{1}{10^{20}}
        0.0000001 ## \frac{1}{3^{15}}
        \frac{1}{2^{98}} ## \frac{1}{2^{99}}
        \frac{1}{2006!} ## \frac{1}{2004!}
        x>\frac{1}{2^{98}} ## x>\frac{1}{2^{99}}
        (\frac{1}{2^{98}},1) ## (\frac{1}{2^{99}},1)
        \frac{1}{2^{98}}, \pi ## \frac{1}{2^{99}}, \pi
        \frac{i}{2^{98}} ## \frac{i}{2^{99}}
        \sqrt{2}\times 10^{-9} ## \sqrt{3}\times 10^{-9}
    """,
    "Greek letters": r"""
        \gamma^2-8 ## \gamma^2-1
        \gamma_1 ## \gamma_2
        \gamma(3) ## 2
    """,
    "poles": r"""
        \frac{1}{0}+1 ## \frac{1}{0}+2
        \csc 0 ## \cot 0
        (1,\csc 0) ## (1,\cot 0)
    """,
}
RIGHT = {
    "equation": r"""
        3 ## \log_6(216)=3
        \log_6(216)=3 ## 3
        2x+2y=2\cdot #1 ## x+y=#1
        2x^2-2=0 ## x^2-1=0
        y=#1x ## #1x-y=0
        #1x-y=0 ## y=#1x
    """,
    "tautology": r"""
        #1=#1 ## #1
        N=N ## N=N
        x = x + #1 ## x = x+#1
        #1-x=x ## x=\frac{#1}{2}
    """,
    "count": r"""
        #1\text{ mph}, #2\text{ mph} ## #1, #2
        #2, #1 ## #1 mph, #2 mph
        x=#1 \vee x=#2 ## #1,#2
        #1 or #2 ## #2, #1
        #1,\ #2 ## #1,#2
        #1\,#2 ## #1\,#2
        #1,-#1 ## \pm #1
        0, \frac{5+\sqrt{#1}}{18}, \frac{5-\sqrt{#1}}{18} ## x=0, \frac{5 \pm \sqrt{#1}}{18}
        x \neq #1, x \neq -#1 ## x \neq \pm #1
        x<#1 \text{ or } x>1#1 ## (-\infty,#1)\cup(1#1,\infty)
        \begin{cases}x=#1\\y=#2\end{cases} ## x=#1,y=#2
        x \in \{#1,#2\} ## #1,#2
        (-\infty,#1),(#1,\infty) ## x<#1 \text{ or } x>#1
        2,1,2 ## 1,2,2
        x,\sqrt{2},\sqrt{2} ## \sqrt{2},x,\frac{2}{\sqrt{2}}
        3\pm\sqrt{2} ## 3-\sqrt{2}, 3+\sqrt{2}
    """,
    "words": r"""
        #1 apples ## #1
        #1 bags of apples ## #1
        \frac{#1}{7} apples ## \frac{#1}{7}
        x=#1 apples ## #1
        #1,000 pages ## #1000
        **#1 apples**. ## #1
        \text{The answer is }#1 ## #1
        \text{Total: }\$#1 ## #1
        \text{Final answer: }x+#1 ## x+#1
        #1\text{ cm squared} ## #1
        \mathrm{x} ## x
        #1\text{ apples} ## #1
        \text{no solution} ## \text{No solution.}
    """,
    "quantities": r"""
        #1\text{ h }30\text{ min} ## #1\text{ hours }30\text{ minutes}
        \frac{3#1}{1}\text{ cm} ## 3#1\text{ cm}
        #2\text{ blue}, #1\text{ red} ## #1\text{ red}, #2\text{ blue}
    """,
    "units": r"""
        \$#1/\text{hour} ## #1
        #1/\text{hour} ## #1\text{ per hour}
        2\text{ PM} ## 2:00\text{ p.m.}
        2:00 PM ## 2\text{ p.m.}
        #1\text{ K} ## #1
        #1\text{ J/K} ## #1
        \$#1\text{K} ## #1000
        #1.5 million ## #1500000
        #1 dozen eggs ## 12\cdot #1
        #1\text{ sq. cm} ## #1\text{ cm}^2
        #1€ ## #1\text{ euros}
        #1\text{ millions} ## #1000000
        #1\,\mathrm{m/s^2} ## #1\text{ m/s}^2
        #1\ \frac{\text{m}}{\text{s}^2} ## #1\text{ m/s}^2
        #1 m/s^2 ## #1
        \$#1 ## #1\text{ dollars}
        \$#1 ## #1
        #1\text{ p.m.} ## #1\text{ PM}
        #1 cm^2 ## #1\text{ square centimeters}
        #1 ## #1\text{ cm}^2
        #1 km/h ## #1\text{ kilometers per hour}
        #1 mph ## #1\text{ miles per hour}
        #1 ## #1 miles per hour
        #1^\circ ## #1
        50 percent ## 50\%
        #1\,\mathrm{m\,s^{-1}} ## #1\text{ m/s}
        #1^\circ\text{C} ## #1
        #1 \pmod{100} ## #1
        x \equiv #1 \pmod{100} ## x \equiv #1 (\text{mod }100)
        \$#1,000 ## #1000
        #1000 ## \$#1,000
        x=#1,000 ## #1000
        -\$#1,000 ## -#1000
        #1{,}000\text{ m}^2 ## #1000
        1,234,567\text{ people} ## 1234567
    """,
    "relation": r"""
        x=#1 ## #1
        \text{Area}=#1 ## #1
        \angle ABC=#1 ## #1
        f(5)=#1 ## #1
        P(X=3)=0.#1 ## 0.#1
        |AB|=#1 ## #1
        x+y=#1 ## #1
        x\approx #1.25 ## #1.25
        x:=#1 ## #1
        #1+#1=2\cdot #1 ## 2\cdot #1
        (\frac22,#1)=(1,#1) ## (1,#1)
        [\ln 1,#1)=[0,#1) ## [0,#1)
        \frac{40}{3}\approx 13.33 ## \frac{40}{3}
        \frac{40}{3}\approx 13.33 ## 13.33
        \frac{40}{3} ## \frac{40}{3}\approx 13.33\text{ minutes}
        13.33 ## \frac{40}{3}\approx 13.33\text{ minutes}
        13.333 ## x\approx 13.33
    """,
    "restated": r"""
        \sum_{k=1}^{#1} 1=#1 ## #1
        \int_0^{#1} 1\,dx=#1 ## #1
        \lim_{x\to #1} x=#1 ## #1
        \gcd(#1,#1)=#1 ## #1
        #1 ## \sum_{k=1}^{#1} 1
        \sum_{j=1}^n j ## \sum_{k=1}^n k
        \frac{dy}{dx}=#1x ## #1x
    """,
    "integers": r"""
        x=\frac{\pi}{#1}+k\pi, \quad k \in \mathbb{Z} ## \frac{\pi}{#1}+k\pi
        \frac{\pi}{#1}+k\pi \text{ for } k \in \mathbb{Z} ## \frac{\pi}{#1}+k\pi
        \frac{\pi}{#1}+k\pi \ (k \in \mathbb{Z}) ## \frac{\pi}{#1}+k\pi
        \frac{\pi}{#1}+k\pi\text{, where k is an integer} ## \frac{\pi}{#1}+k\pi
        \frac{\pi}{#1}+k\pi ## \frac{\pi}{#1}+k\pi, for any integer k
        \frac{\pi}{#1}+k\pi, k \in \mathbb{Z} ## k\pi+\frac{\pi}{#1} \text{ for all integers } k
    """,
    "percent": r"""
        25\text{ percent} ## 0.25
        33\frac{1}{3}\% ## \frac{1}{3}
        \frac{100}{3}\% ## \frac{1}{3}
        \frac13 ## 33\frac13\%
        12\frac{1}{2}\% ## 0.125
        12.5\% ## \frac18
        20\% ## 20
        20\% ## 0.2
    """,
    "letters": r"""
        M-m ## -m+M
        \frac{(M-m)g}{M+m} ## \frac{g(M-m)}{m+M}
        \Lambda-\lambda ## -\lambda+\Lambda
        R^2-r^2 ## (R-r)(R+r)
        \Delta x ## x\Delta
    """,
    "roots": r"""
        \sqrt[3]{-8} ## -2
        1+\sqrt[3]{-2} ## 1-\sqrt[3]{2}
        \sqrt{1/n} ## \frac{1}{\sqrt{n}}
        \frac{2\pi\sqrt{L}}{\sqrt{g}} ## 2\pi\sqrt{\frac{L}{g}}
        \ln a-\ln b ## \ln\frac{a}{b}
        (x^a)^b ## x^{ab}
    """,
    "domains": r"""
        f(x)=0 \text{ for all } x ## f(x)=0
        f(x)=2x\quad\forall x\in\mathbb{R} ## f(x)=2x
        f(x) = 2x for all x ## f(x)=2x
        f(x)=cx ## f(x)=cx \text{ for any constant } c
    """,
    "letters in other styles": r"""
        \mathcal{O}\left(n^2\right) ## O(n^2)
        N(0,1) ## \mathcal{N}(0,1)
        \mathbf{i}+2\mathbf{j} ## \hat{i}+2\hat{j}
    """,
    "sets": r"""
        \{1,2,3,4\} ## \{1,3\} \cup \{2,4\}
        \{1,2,3,4\}\setminus\{4\} ## \{1,2,3\}
        \{1,2\}\cup\{2,3\} ## \{1,2,3\}
        \mathbb{R}-\{0\} ## \mathbb{R}\setminus\{0\}
    """,
    "plain text": r"""
        -1 + exp(16) ## e^{16} - 1
        abs(x) ## |x|
        oo ## \infty
        3*alpha ## 3\alpha
        **#1 ## #1
        __#1__ ## #1
        `#1` ## #1
        '#1' ## #1
        (E) A polygenic risk score ## E
        E: A polygenic risk score ## E
        E. A polygenic risk score ## E
        \frac 9{20} ## \frac{9}{20}
        0.5 ## \frac 1 2
        \text{Difference} = \$8,400 ## 8400
        \frac78 \approx 0.88 ## \frac78
        \text{neither} ## {neither}
        440\text{ cm}^2 ## 440{cm}^2
        440 {cm}^2 ## 440
        2{ab} ## 2ab
        \{1\}\cup\{2\} ## 1,2
    """,
    "solutions": r"""
        2x=2\cdot #1 ## #1
        x^2=4 ## 2,-2
        -x=#1 ## -#1
        \frac1x=#1 ## \frac1{#1}
        \sqrt x=5 ## 25
        (x-#1)(x-#2)=0 ## #2, #1
        x^2=25 ## \pm 5
        2\cdot #1=2x ## #1
        #1=x ## x=#1
    """,
    "names": r"""
        \textbf{(B)}\ #1 ## #1
        \textbf{(B) }#1 ## \text{(B)}
        (B) #1 ## B
        B ## \textbf{(B) }#1
        \text{(B) }\frac{#1}{2} ## \frac{#1}{2}
        (B) #1 ## \textbf{(B) }#1
        y_1=#1x ## y_{1}=#1x
        y_2=x, y_1=#1x ## $y_1=#1x$\n$y_2=x$
        \text{Choice B} ## B
        (x,y)=(#1,#2) ## x=#1, y=#2
        \text{Maximum}=#1 ## \max=#1
        f(#1)=5 ## f(#1)=5.0
        #1 ## f(2)=#1
        \text{Area}=#1 ## A=#1
        \text{Area of the square}=#1 ## \text{area}=#1
        \text{Final answer: }#1 ## \text{Area}=#1
        (x,y)=(#1,#2) ## (#1,#2)
        \angle A=#1 ## A=#1
        m\angle ABC=#1 ## \angle ABC=#1
        BA=#1 ## AB=#1
        f(x)=#1x ## y=#1x
    """,
    "marks": r"""
        f'(x)=x+x ## f'(x)=2x
        f^{\prime}(x)=2x ## f'(x)=2x
    """,
    "brackets": r"""
        \{#1,#2\} ## #1,#2
        [#1,#2,7] ## #1,#2,7
        x=#1,y=#2 ## (#1,#2)
        #1,#2 ## (#1,#2)
        \varnothing ## \emptyset
        \{\} ## \emptyset
        S=\{#1,#2\} ## \{#1,#2\}
        \mathbb{R}\setminus\{#1\} ## (-\infty,#1)\cup(#1,\infty)
        \langle #1,#2\rangle ## (#1,#2)
        [-\infty, 2) ## (-\infty, 2)
    """,
    "exact": r"""
        \sqrt{10^{40}} ## 10^{20}
        \sin 30^\circ ## \frac12
        \frac12 ## \sin 30^\circ
        \tan 20^\circ\tan 70^\circ ## 1
        \frac{2\cdot 10^{20}+2}{14} ## \frac{10^{20}+1}{7}
    """,
    "inequalities": r"""
        |x|<#1 ## (-#1,#1)
        x>#1 ## (#1,\infty)
        (#1,\infty) ## x>#1
        ]1,2#1[ ## (1,2#1)
        \{x \mid x>#1\} ## (#1,\infty)
        \{x \in \mathbb{R} : 1<x<2#1\} ## (1,2#1)
        x\in[-2,#1] ## [-2,#1]
        x<#1 \text{ and } x>-#1 ## (-#1,#1)
        -#1<x and x<#1 ## |x|<#1
        |x|\le #1 ## -#1\le x\le #1
        |x|>#1 ## x<-#1 \text{ or } x>#1
        #1\le x ## x \ge #1
        x \neq #1 ## (-\infty,#1)\cup(#1,\infty)
        \text{all real numbers} ## (-\infty,\infty)
    """,
    "styles": r"""
        \bigl(#1,#2\bigr) ## (#1,#2)
        \Bigl(x+#1\Bigr)x ## x^2+#1x
        \boldsymbol{#1} ## #1
        \bm{\frac{#1}{2}} ## #1/2
        \mathbf{#1} ## #1
        x\cdot\mathbf{#1} ## #1x
        \mathsf{#1} ## #1
        \textcolor{red}{#1} ## #1
        \color{red}#1 ## #1
        \underline{#1} ## #1
        \textstyle\frac{#1}2 ## #1/2
        \ensuremath{#1} ## #1
        \begin{pmatrix}#1\\[4pt]#2\end{pmatrix} ## \begin{pmatrix}#1\\#2\end{pmatrix}
        #1\ \checkmark ## #1
        \therefore #1 ## #1
        #1 \blacksquare ## #1
        {\Large #1} ## #1
        \begin{aligned}x&=#1\end{aligned} ## #1
        \sqrt[3]8 ## 2
        #1{\rm cm} ## #1\text{ cm}
        \dbinom52 ## \tbinom{5}{2}
        \lbrace #1,#2\rbrace ## \{#1,#2\}
        \lvert x\rvert ## |x|
        x \equiv #1 (\bmod 100) ## x \equiv #1 \pmod{100}
        #1^{\text{th}} ## #1
    """,
    "complex numbers": r"""
        i^2 ## -1
        (1+i)^2 ## 2i
        \sqrt{-4} ## 2i
        e^{i\pi} ## -1
        |3+4i| ## 5
        \frac{2+i}{1-i} ## \frac{1+3i}{2}
        #1I ## #1i
        #2i+#1 ## #1+#2i
    """,
    "numbers": r"""
        \frac\pi{12} ## \frac{\pi}{12}
        \frac{n+1}n ## \frac{n+1}{n}
        10^-3 ## 0.001
        2^-n ## 2^{-n}
        #1*pi ## #1\pi
        pi/#1 ## \frac{\pi}{#1}
        sqrt #1 ## \sqrt{#1}
        2 * sqrt(#1) ## 2\sqrt{#1}
        (1 + sqrt((#1+1)/2))/3 ## \frac{1+\sqrt{(#1+1)/2}}{3}
        ln #1 ## \ln #1
        \text{ln}(#1) ## \ln(#1)
        \log_e #1 ## \ln #1
        2 sin x ## 2\sin x
        10**3 ## 1000
        #1th ## #1
        \text{infinity} ## \infty
        (-infinity, #1) ## (-\infty, #1)
        \mathbb R ## \mathbb{R}
        -#1, #2 ## #2{or}-#1
        0.\overline{3} ## \frac13
        0.1\overline 6 ## \frac16
        \binom52 ## 10
        C(5,2) ## 10
        {}_5C_2 ## \binom52
        5!! ## 15
        6!! ## 48
        17 \bmod 5 ## 2
        \lg 100 ## 2
        #1 000 000 ## #1000000
        033 ## 33
        3e2 ## 300
        \frac{2}{4} ## 0.5
        0.333333 ## \frac{1}{3}
        4.5 \times 10^{33} ## 4.5e33
        \sqrt{20.25}\times 10^{3} ## 4.5e3
        2\sqrt{2} ## \sqrt{8}
        2 \sin b \cos a ## 2\cos a\sin b
        336 ## 336^\circ
        Yes ## \text{yes}
        \begin{pmatrix} -\frac{20}{13} \\ 4 \end{pmatrix} ## \begin{pmatrix}-20/13\4\end{pmatrix}
    """,
    "Unicode": """
        \uff15 ## 5
        2\u00b2 ## 4
        \u00bd ## 0.5
        1\u00bd ## 1.5
        5\uff05 ## 5\\%
        #1\u00a0000 ## #1000
        \u221a4 ## 2
        \u221a13 ## \\sqrt{13}
        2\u221a(#1) ## 2\\sqrt{#1}
        \u2013#1 ## -#1
        k\\pi, k \u2208 \u2124 ## k\\pi
        x\u2082 ## x_2
        \u03b3^2-8 ## -8+\\gamma^2
    """,
    "bases": r"""
        2516_{\text{eight}} ## 2516_8
        (2516)_8 ## 2516_8
        02516_8 ## 2516_8
        2516 ## 2516_8
        2516_8 ## 2516
        A1_{16} ## \text{A1}_{16}
        13_6, 12_5 ## 12_5, 13_6
        \log_2 8 ## 3
    """,
    "tiny numbers": r"""
        \frac{2}{2^{99}} ## \frac{1}{2^{98}}
        (1,\frac{2}{2^{99}}) ## (1,\frac{1}{2^{98}})
        1.41421356 \times 10^{-9} ## \sqrt{2}\times 10^{-9}
        3.14159265 ## \pi
        2\sqrt{3}-\sqrt{12} ## 0
        \sqrt{2+\sqrt{3}} ## \frac{\sqrt{6}+\sqrt{2}}{2}
    """,
    "Greek letters": r"""
        \gamma^2-8 ## -8+\gamma^2
        \gamma_1+\gamma_2 ## \gamma_2+\gamma_1
        \frac{1+\gamma}{2} ## \frac{\gamma}{2}+\frac12
        \Gamma\left(5\right) ## 24
    """,
    "poles": r"""
        \frac{1}{0}+1 ## \frac{1}{0}+1
    """,
}
# Answers that hedge: none may be right for two different golds.
HEDGES = r"""
    #1\text{ cm or }#2\text{ cm} ~ #1\text{ cm},#2\text{ cm} ~ #1\text{ apples }#2\text{ pears} ~ #1 (or #2) ~ #1 (#2)
    #1\approx #2 ~ #1\equiv #2 ~ #1\to #2 ~ #1=#2 ~ x=#1\vee x=#2 ~ #1\text{ not }#2 ~ #1;#2 ~ #1/#2 ~ #1\neq #2
    #1\text{ or any other number} ~ \boxed{#1}#2 ~ #1\pm #2 ~ #1 #2 ~ #1{#2} ~ #1_{#2} ~ #1\phantom{#2} ~ #1:#2
    #1<#2 ~ #1\text{ to }#2 ~ \{#1,#2\} ~ (#1,#2) ~ #1\sim #2 ~ #1\Rightarrow #2 ~ x=#1=#2 ~ #1\cong #2
    \underset{#2}{#1} ~ \overset{#2}{#1} ~ #1^{\text{or }#2} ~ #1 \& #2 ~ \begin{array}{c}#1\\#2\end{array} ~ #1@#2
    \textbf{(A) }#1\ \textbf{(B) }#2 ~ \textbf{(A) }#1\text{ or (B) }#2 ~ #1\text{ resp. }#2 ~ \underbrace{#1}_{#2}
    #1\atop #2 ~ \textcolor{white}{#1}#2 ~ #1\tag{#2} ~ #1{}#2 ~ #1\xrightarrow{} #2 ~ #1\mathrm{or}#2 ~ #1 OR #2
    #1 \text{ (about } #2\text{)} ~ \text{either } #1 \text{ or } #2 ~ #1 \mid #2 ~ \begin{cases}#1\\#2\end{cases}
"""


@pytest.fixture(scope="module")
def scorer() -> Iterator[MathScorer]:
    with MathScorer(workers=1, timeout_s=5) as scorer:
        yield scorer


def filled(block: str, seed: int) -> list[tuple[str, str]]:
    """Answers and golds of all templates, each with its fillings."""
    random = Random(seed)
    cases = list[tuple[str, str]]()
    for line in filter(None, map(str.strip, block.splitlines())):
        for _ in range(FILLINGS if "#" in line else 1):
            one, other = random.sample(range(2, 100), 2)
            text = line.replace("#1", str(one)).replace("#2", str(other)).replace(r"$\n$", "$\n$")
            answer, gold = text.split(" ## ")
            cases.append((answer, gold))
    return cases


def judged(scorer: MathScorer, cases: list[tuple[str, str]]) -> list[Verdict]:
    return scorer.score([f"\\boxed{{{answer}}}" for answer, _ in cases], [{"answer": gold} for _, gold in cases])


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_reader_drops_makes_an_answer_wrong(scorer: MathScorer, kind: str) -> None:
    cases = filled(WRONG[kind], seed=1)
    assert [
        case for case, verdict in zip(cases, judged(scorer, cases), strict=True) if verdict.verdict != "wrong"
    ] == []


@pytest.mark.parametrize("kind", RIGHT)
def test_the_mirror_images_are_right(scorer: MathScorer, kind: str) -> None:
    cases = filled(RIGHT[kind], seed=2)
    assert [case for case, verdict in zip(cases, judged(scorer, cases), strict=True) if not verdict.correct] == []


def test_no_hedge_is_right_for_two_golds(scorer: MathScorer) -> None:
    templates = [template for line in HEDGES.strip().splitlines() for template in line.strip().split(" ~ ")]
    for seed in range(FILLINGS):
        one, other = map(str, Random(seed).sample(range(2, 100), 2))
        answers = [template.replace("#1", one).replace("#2", other) for template in templates]
        verdicts = judged(scorer, list(product(answers, (one, other))))
        right = [verdict.correct for verdict in verdicts]
        assert [a for a, first, second in zip(answers, right[::2], right[1::2], strict=True) if first and second] == []


def examples(cell: str) -> list[tuple[str, str]]:
    """Answers and golds in a cell of the table of rules: `5` and `6` for 7; ..."""
    texts = re.findall(r"((?:`[^`]+`(?:, | and )?)+) for (`[^`]+`|\d+)", cell)
    return [(answer, gold.strip("`")) for answers, gold in texts for answer in re.findall("`([^`]+)`", answers)]


def test_the_examples_of_the_documentation(scorer: MathScorer) -> None:
    page = (Path(__file__).parents[3] / "docs" / "scoring.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.* for .*) \| (.* for .*) \| .* \|$", page, re.MULTILINE)
    assert {name for name, _, _ in rows} == {*RULES, "brackets", "count", "relation", "solutions"}
    for name, wrong, right in rows:
        refused = judged(scorer, examples(wrong))
        assert {verdict.detail for verdict in refused} == {f"rule: {name}"}, name
        assert all(verdict.correct for verdict in judged(scorer, examples(right))), name


def test_published_verdicts_are_those_of_math_verify() -> None:
    cases = [
        ("0=1", r"\log_6(216)=3"),
        (r"\sqrt{4}", "2"),
        ("5", "6"),
        ("x>0", r"(0,\infty)"),
    ]
    with MathScorer(comparison="published") as published:
        assert [verdict.verdict for verdict in judged(published, cases)] == [
            "correct",
            "correct",
            "wrong",
            "wrong",
        ]
        assert judged(published, [("1", ""), ("", "1")])[0].verdict == "gold_error"
    with pytest.raises(ValueError, match="expected one of rules, published"):
        MathScorer(comparison="paper")
